"""What else could have stood at each place of an output: read off one more pass over the finished outputs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.search.hypothesis import Hypothesis, LikelyId
from qkv.text.special import NEVER_OUTPUT, SPECIAL

PLACES = 1024
"""Of rows whose probabilities are computed at once, padding included."""


@torch.no_grad()
def with_likely(
    models: Sequence[Model], sources: Sequence[list[int]], found: list[list[Hypothesis]], count: int
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, with the `count` most probable tokens of each place, END included.

    Sources end with END. A model that does not write from left to right has no next token: nothing is added.
    """
    rows = [(source, one) for source, own in zip(sources, found, strict=True) for one in own]
    if not rows or any(model.inference().steps is None for model in models):
        return found
    # The probabilities of all tokens at all places are many: of as few rows at once as memory is to be had for.
    at_once = max(1, PLACES // max(len(one.tokens) + 1 for _, one in rows))
    marked = (one for start in range(0, len(rows), at_once) for one in _marked(models, rows[start:][:at_once], count))
    return [[next(marked) for _ in own] for own in found]


def _marked(models: Sequence[Model], rows: list[tuple[list[int], Hypothesis]], count: int) -> Iterator[Hypothesis]:
    batch = collate(
        [source[:-1] for source, _ in rows], [one.tokens for _, one in rows], SPECIAL, SPECIAL, range(len(rows))
    )
    each = torch.stack([_log_probs(model, batch.to(models[0].device)) for model in models])
    log_probs = each.logsumexp(dim=0) - math.log(len(models))
    for row, (_, one) in enumerate(rows):
        yield replace(one, likely=_likely(log_probs[row, : len(one.tokens) + one.ended], count))


def _log_probs(model: Model, batch: Batch) -> Tensor:
    return model.head.log_probs(*model(batch), never=NEVER_OUTPUT)


def _likely(log_probs: Tensor, count: int) -> list[list[LikelyId]]:
    """Of each place [T, V] the most probable tokens, best first."""
    best = log_probs.topk(min(count, log_probs.shape[-1]), dim=-1)
    rows = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return [[LikelyId(i, p) for i, p in zip(ids, values, strict=True) if p > 0] for ids, values in rows]
