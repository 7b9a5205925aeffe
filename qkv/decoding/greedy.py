"""Greedy decoding, the plain way: the whole prefix is decoded again for each new token.

This is the readable definition against which faster decoders are tested.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from qkv.models.seq2seq import Seq2Seq
from qkv.text.special import SpecialIds


@torch.no_grad()
def greedy(
    model: Seq2Seq,
    src: Tensor,
    src_keep: Tensor,
    special: SpecialIds,
    max_length: int,
    after_step: Callable[[], None] = lambda: None,
) -> list[list[int]]:
    """The most probable next token again and again, until END or `max_length` tokens; without END.

    Among equal tokens the lowest id wins. Sentences that have ended leave the batch.
    """
    memory = model.encode(src, src_keep)
    prefix = torch.full((len(src), 1), special.bos, dtype=torch.long, device=src.device)
    live = torch.arange(len(src), device=src.device)
    outputs: list[list[int]] = [[] for _ in range(len(src))]
    banned = torch.tensor([special.pad, special.bos, special.mask], device=src.device)
    for _ in range(max_length):
        decoded = model.decode(prefix, memory, src_keep)
        log_probs = model.head.log_probs(decoded[:, -1])
        log_probs[:, banned] = -torch.inf
        best = log_probs.argmax(dim=-1)
        going_on = best != special.eos
        live, best = live[going_on], best[going_on]
        for row, token in zip(live.tolist(), best.tolist(), strict=True):
            outputs[row].append(token)
        after_step()
        if not len(live):
            break
        prefix = torch.cat([prefix[going_on], best[:, None]], dim=1)
        memory, src_keep = memory[going_on], src_keep[going_on]
    return outputs
