"""Texts in, texts out, in order: sorted by length and batched inside."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

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
    """The greedy output for each text. Leaves the model's mode as it was.

    `progress` is called with (done, total) after every step, so that it can also stop the work by raising.
    """
    was_training = model.training
    model.eval()
    special = tokenizers.src.special
    sources = [[*ids, special.eos] for ids in tokenizers.src.encode_batch(texts)]
    outputs = [""] * len(texts)
    done = 0

    def tick(finished: int) -> None:
        if progress:
            progress(finished, len(texts))

    try:
        for rows in _batches([len(ids) for ids in sources], batch_tokens):
            src, src_keep = padded([sources[row] for row in rows], special.pad)
            limit = _limit(model, src.shape[1])
            decoded = greedy(model, src, src_keep, tokenizers.tgt.special, limit, partial(tick, done))
            for row, ids in zip(rows, decoded, strict=True):
                # The batch's limit is its longest source's: each text is held to its own, as if it were alone.
                outputs[row] = tokenizers.tgt.decode(ids[: _limit(model, len(sources[row]))])
            done += len(rows)
            tick(done)
    finally:
        model.train(was_training)
    return outputs


def _limit(model: Seq2Seq, src_length: int) -> int:
    """The most output tokens for a source: 2 |source| + 10, or what the model's positions allow."""
    most = model.tgt_embedder.positions.max_length
    return min(2 * src_length + 10, most or sys.maxsize)


def _batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Rows sorted by length and cut so that rows x longest stays within `batch_tokens`."""
    order = torch.tensor(lengths).argsort(stable=True).tolist()
    batches: list[list[int]] = []
    for row in order:
        if not batches or (len(batches[-1]) + 1) * lengths[row] > batch_tokens:
            batches.append([])
        batches[-1].append(row)
    return batches
