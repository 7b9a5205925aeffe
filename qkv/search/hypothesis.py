"""Hypotheses: the results of a search, and its state."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from qkv.core.errors import QkvError


class Copied(NamedTuple):
    """That a token is a copy of a source token."""

    src: int
    """The position of the source token, from 0."""
    share: float
    """How much of the token's probability comes from copying."""


class LikelyId(NamedTuple):
    """A token that could stand at a place of an output."""

    token: int
    probability: float


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]
    """Without the start symbol and END."""
    token_scores: list[float]
    """log p of each token, and of END if it ended."""
    score: float
    """The score that the search ranks by; higher is better."""
    ended: bool
    """False: it has no END, but was cut at the maximum length or where no token was allowed."""
    attention: list[list[float]] | None = None
    """[tokens][source], one row per token without END; only if the steps return it."""
    passes: int | None = None
    """The number of decoder passes; only where a pass may give several tokens."""
    copied: list[Copied | None] | None = None
    """For each token, what it copies; None: nothing. Only if asked for."""
    likely: list[list[LikelyId]] | None = None
    """The most probable tokens of each place, that of END included, best first. Only if asked for."""


@dataclass(eq=False, slots=True)
class Partial:
    """A partial hypothesis as a linked list: its last token, and `parent`.

    Beams share their histories, so that nothing is copied.
    """

    parent: "Partial | None" = None
    token: int = -1
    log_prob: float = 0.0
    attention: Tensor | None = None
    """[S], the weights with which the last token was chosen."""
    total: float = 0.0
    """log p of all tokens."""
    length: int = 0
    """The number of tokens, END included."""

    def extended(self, token: int, log_prob: float, attention: Tensor | None) -> "Partial":
        return Partial(self, token, log_prob, attention, self.total + log_prob, self.length + 1)

    def tokens(self) -> list[int]:
        return [node.token for node in self._nodes()][::-1]

    def attentions(self) -> list[Tensor]:
        return [node.attention for node in self._nodes() if node.attention is not None][::-1]

    def hypothesis(self, score: float, ended: bool, src_length: int) -> Hypothesis:
        """The finished `Hypothesis`. `ended`: the last token is END, which is dropped."""
        written = self.length - 1 if ended else self.length
        weights = self.attentions()
        attention = [row[:src_length].tolist() for row in weights[:written]] if weights else None
        scores = [node.log_prob for node in self._nodes()][::-1]
        return Hypothesis(self.tokens()[:written], scores, score, ended, attention)

    def _nodes(self) -> Iterator["Partial"]:
        """From the last token to the first."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def not_a_number() -> QkvError:
    """The error for a probability that is NaN."""
    return QkvError(
        "the model's output is not a number (NaN), so its weights are damaged: use an earlier checkpoint of the run"
    )


BLOCKS = 64
LOWEST = float(np.finfo(np.float32).min)


class Candidate(NamedTuple):
    """A beam of a sentence and a next token."""

    score: float
    """The score that it is ranked by."""
    beam: int
    token: int
    log_prob: float
    """Of the token alone."""


def first_max(log_probs: Tensor) -> tuple[list[int], list[float]]:
    """The argmax of each row [R, V], and its value."""
    numbers = log_probs.cpu().numpy()
    index = numbers.argmax(axis=1)
    values = numbers[np.arange(len(index)), index].tolist()
    if any(value != value for value in values):
        raise not_a_number()
    return index.tolist(), values


def best_candidates(
    ranked: Tensor, log_probs: Tensor, totals: NDArray[np.float64], count: int
) -> list[list[Candidate]]:
    """For each sentence the `count` candidates with the highest totals[b, k] + ranked[b, k, v], fewer if all others
    are -inf: highest first, ties by lower beam, then by lower token.

    ranked, log_probs [B, K, V]; totals [B, K] holds -inf for beams that do not exist. Every candidate is as high as
    the `count`-th highest of any subset, here of the maxima of blocks, so few are left to be sorted.
    """
    plain = log_probs.cpu().numpy()
    numbers = plain if ranked is log_probs else ranked.cpu().numpy()
    maxima = (_block_maxima(ranked).cpu().numpy() + totals[:, :, None]).reshape(len(totals), -1)
    if np.isnan(maxima.max()):
        raise not_a_number()
    worst = max(maxima.shape[1] - count, 0)
    maxima.partition(worst, axis=1)
    enough = maxima[:, worst, None] - np.maximum(totals, LOWEST)
    # The comparison is in single precision: allow for its rounding.
    enough = np.maximum(enough - 1e-6 * (1 + np.abs(enough)), LOWEST).astype(np.float32)
    # In one dimension, where it is much faster than in three.
    row, token = np.divmod((numbers >= enough[:, :, None]).ravel().nonzero()[0], numbers.shape[2])
    sentence, beam = np.divmod(row, numbers.shape[1])
    scores = totals[sentence, beam] + numbers[sentence, beam, token]
    values = plain[sentence, beam, token]
    found: list[list[Candidate]] = [[] for _ in range(len(totals))]
    order = np.lexsort((-scores, sentence))  # stable: ties stay in the order of beams and tokens
    columns = (column[order].tolist() for column in (sentence, scores, beam, token, values))
    for own, *candidate in zip(*columns, strict=True):
        if len(found[own]) < count and candidate[0] > -np.inf:
            found[own].append(Candidate(*candidate))
    return found


def _block_maxima(scores: Tensor) -> Tensor:
    """[B, K, V] -> [B, K, BLOCKS], each the maximum of some of the last axis; a short axis stays as it is."""
    rows = scores.shape[-1] // BLOCKS
    if rows < 2:
        return scores
    blocks: Tensor = scores[..., : rows * BLOCKS].unflatten(-1, (rows, BLOCKS))
    return blocks.amax(dim=-2)
