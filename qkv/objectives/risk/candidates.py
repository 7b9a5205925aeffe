"""Outputs that a model draws for the sources of a batch, and their log-probabilities."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.data.batch import Batch, padded
from qkv.functional.noise import draw_tokens
from qkv.models.base import Model
from qkv.models.transformer.channels import auxiliary_losses
from qkv.text.special import NEVER_OUTPUT, SpecialIds

Candidates = list[list[list[int]]]
"""For each sentence its outputs, ordinary ids without END."""


@torch.no_grad()
def draw(model: Model, batch: Batch, samples: int, longest: int, special: SpecialIds) -> Candidates:
    """So many independent outputs of each sentence as end within `longest` tokens; equal ones are given once."""
    steps = model.inference().require_steps()
    state = steps.start(batch.src, batch.src_keep, samples)
    vocab_size = len(model.tgt_embedding.weight)
    tokens = torch.full((len(batch) * samples, 1), special.bos, device=batch.src.device)
    drawn = tokens
    ended = torch.zeros(len(drawn), dtype=torch.bool, device=drawn.device)
    for _ in range(longest + 1):
        (states, context), state = steps.extend(tokens, state)
        probabilities = model.head.log_probs(states, context, never=NEVER_OUTPUT)[:, 0, :vocab_size].exp()
        tokens = draw_tokens(probabilities)[:, None]
        drawn = torch.cat([drawn, tokens], dim=1)
        ended |= tokens[:, 0] == special.eos
        if ended.all():
            break
    outputs = [row[1 : row.index(special.eos)] if special.eos in row else None for row in drawn.tolist()]
    groups = [outputs[first : first + samples] for first in range(0, len(outputs), samples)]
    return [_distinct([output for output in group if output is not None]) for group in groups]


def _distinct(outputs: Sequence[list[int]]) -> list[list[int]]:
    return [list(output) for output in dict.fromkeys(map(tuple, outputs))]


def sequence_log_probs(model: Model, batch: Batch, candidates: Candidates, special: SpecialIds) -> list[Tensor]:
    """log p(Y | X) of each candidate of each sentence, END included, from one parallel pass with gradients.

    An auxiliary loss of the model is that of a sentence: the mean over its candidates.
    """
    rows = torch.tensor([row for row, each in enumerate(candidates) for _ in each], dtype=torch.long)
    outputs = [output for each in candidates for output in each]
    tgt_in, _ = padded([[special.bos, *output] for output in outputs], special.pad)
    tgt_out, keep = padded([[*output, special.eos] for output in outputs], special.pad)
    rows, tgt_in, tgt_out, keep = (part.to(batch.src.device) for part in (rows, tgt_in, tgt_out, keep))
    given = Batch(batch.src[rows], batch.src_keep[rows], tgt_in, tgt_out, keep.float(), list(range(len(rows))))
    counts = [len(each) for each in candidates]
    with auxiliary_losses.listen() as costs:
        states, context = model(given)
    for cost in costs:
        auxiliary_losses.say(torch.stack([part.mean() for part in cost.split(counts)]))
    log_probs = model.head.log_probs(states[keep], context.at(keep), never=NEVER_OUTPUT)
    each_token = log_probs.gather(1, tgt_out[keep][:, None])[:, 0]
    sums = torch.zeros(keep.shape, dtype=each_token.dtype, device=keep.device).masked_scatter(keep, each_token)
    return list(sums.sum(dim=1).split(counts))
