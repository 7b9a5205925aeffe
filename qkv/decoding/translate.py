"""Texts in, texts out, in order: sorted by length and batched inside."""

from collections.abc import Callable, Sequence

import torch

from qkv.data.batch import padded
from qkv.decoding.greedy import greedy
from qkv.models.seq2seq import Seq2Seq
from qkv.text import TokenizerPair


def translate_greedily(
    model: Seq2Seq,
    tokenizers: TokenizerPair,
    texts: Sequence[str],
    batch_tokens: int = 4096,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """The greedy output for each text; at most 2 |source| + 10 tokens long. Leaves the model's mode as it was."""
    was_training = model.training
    model.eval()
    special = tokenizers.src.special
    sources = [[*ids, special.eos] for ids in tokenizers.src.encode_batch(texts)]
    outputs = [""] * len(texts)
    done = 0
    for rows in _batches([len(ids) for ids in sources], batch_tokens):
        src, src_keep = padded([sources[row] for row in rows], special.pad)
        limit = 2 * src.shape[1] + 10
        decoded = greedy(model, src, src_keep, tokenizers.tgt.special, limit)
        for row, ids in zip(rows, decoded, strict=True):
            outputs[row] = tokenizers.tgt.decode(ids)
        done += len(rows)
        if progress:
            progress(done, len(texts))
    model.train(was_training)
    return outputs


def _batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Rows sorted by length and cut so that rows x longest stays within `batch_tokens`."""
    order = torch.tensor(lengths).argsort(stable=True).tolist()
    batches: list[list[int]] = []
    for row in order:
        if not batches or (len(batches[-1]) + 1) * lengths[row] > batch_tokens:
            batches.append([])
        batches[-1].append(row)
    return batches
