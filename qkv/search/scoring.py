"""Forced decoding: log p(target | source), token by token."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from qkv.core.errors import DataError
from qkv.data.batch import Batch, collate
from qkv.data.batching import by_length
from qkv.models.base import Model, Output
from qkv.text import TokenizerPair
from qkv.text.special import NEVER_OUTPUT

BATCH_TOKENS = 4096
"""Default size of a batch, in tokens of both sides."""
ROWS = 2048
"""Positions whose logits are in memory at once."""


@dataclass(frozen=True)
class PairScore:
    """The score of one target."""

    score: float
    """log p(target | source), END included."""
    tokens: list[str]
    token_scores: list[float]
    """The log-probability of each token and of END; their sum is `score`."""

    @property
    def per_token(self) -> float:
        return self.score / len(self.token_scores)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "score": self.score,
            "per_token": self.per_token,
            "tokens": self.tokens,
            "token_scores": self.token_scores,
        }


def score_pairs(
    models: Sequence[Model],
    tokenizers: TokenizerPair,
    pairs: Sequence[tuple[str, str]],
    batch_tokens: int,
    first: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PairScore]:
    """The scores in the order of the pairs; several models form an ensemble, as in a search."""
    src = tokenizers.src.encode_batch([source for source, _ in pairs])
    tgt = tokenizers.tgt.encode_batch([target for _, target in pairs])
    linked = [tokenizers.linked(*pair, *ids) for pair, *ids in zip(pairs, src, tgt, strict=True)]
    src, tgt = [ids for ids, _ in linked], [ids for _, ids in linked]
    check_lengths(models, src, tgt, first)
    found: list[list[float]] = [[] for _ in pairs]
    done = 0
    for rows in by_length([len(a) + len(b) + 2 for a, b in zip(src, tgt, strict=True)], 1, batch_tokens):
        special = tokenizers.src.special, tokenizers.tgt.special
        batch = collate([src[row] for row in rows], [tgt[row] for row in rows], *special, rows).to(models[0].device)
        for row, scores in zip(rows, _token_scores(models, batch), strict=True):
            found[row] = scores
        done += len(rows)
        progress(done, len(pairs))
    return [
        PairScore(math.fsum(scores), tokenizers.output_of(source, src_ids).tokens(ids), scores)
        for (source, _), (src_ids, ids), scores in zip(pairs, linked, found, strict=True)
    ]


@torch.no_grad()
def _token_scores(models: Sequence[Model], batch: Batch) -> list[list[float]]:
    """log p of each token of `tgt_out`: the mean of the models' probabilities."""
    at = batch.counted
    each = torch.stack([_log_probs(model, batch, at) for model in models])
    scores = iter((each.logsumexp(dim=0) - math.log(len(models))).tolist())
    lengths = (batch.tgt_weight > 0).sum(dim=1).tolist()
    return [list(islice(scores, length)) for length in lengths]


def _log_probs(model: Model, batch: Batch, at: tuple[Tensor, Tensor]) -> Tensor:
    states, context = model(batch)
    return picked_log_probs(model, Output(states[at], context.at(at)), batch.tgt_out[at])


def picked_log_probs(model: Model, output: Output, targets: Tensor) -> Tensor:
    """log p of the token `targets` [N] at each of the states [N, D]; the head sees some of them at a time."""
    states, context = output
    picked = []
    for first in range(0, len(states), ROWS):
        rows = slice(first, first + ROWS)
        log_probs = model.head.log_probs(states[rows], context.at(rows), never=NEVER_OUTPUT)
        picked.append(log_probs.gather(1, targets[rows, None])[:, 0])
    return torch.cat(picked)


def check_lengths(models: Sequence[Model], src: list[list[int]], tgt: list[list[int]], first: int) -> None:
    """Raise DataError for a pair that a model cannot read; messages number the pairs from `first` on."""
    for model in models:
        for name, sides, limit in (("source", src, model.limits.src), ("target", tgt, model.limits.tgt)):
            for number, ids in enumerate(sides, start=first):
                if limit is not None and len(ids) + 1 > limit:
                    raise DataError(
                        f"pair {number}: its {name} has {len(ids) + 1:,} tokens, but the model reads "
                        f"{limit:,} at most; shorten it"
                    )
