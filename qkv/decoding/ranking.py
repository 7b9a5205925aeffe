"""The best of many, with equals in a fixed order: of equal tokens the lowest id, of equal rows the first.

`torch.topk` promises no order among equals and reads its input one number at a time. For a vocabulary of 10,000 it
takes as long as a step of a small model. Here most of the work is `amax` and one comparison, which are vectorised.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from qkv.decoding.hypothesis import not_a_number

BLOCKS = 64
LOWEST = float(np.finfo(np.float32).min)


class Candidate(NamedTuple):
    """A beam of a sentence and a token that may follow it."""

    score: float
    """What it is ranked by."""
    beam: int
    token: int
    log_prob: float
    """Of the token alone."""


def first_max(log_probs: Tensor) -> tuple[list[int], list[float]]:
    """The highest of each row [R, V], and its value."""
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
    are -inf: highest first, of equals the lower beam and then the lower token first.

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
    # The comparison is in single precision: let in what rounding could keep out.
    enough = np.maximum(enough - 1e-6 * (1 + np.abs(enough)), LOWEST).astype(np.float32)
    # In one dimension, where it is much faster than in three.
    row, token = np.divmod((numbers >= enough[:, :, None]).ravel().nonzero()[0], numbers.shape[2])
    sentence, beam = np.divmod(row, numbers.shape[1])
    scores = totals[sentence, beam] + numbers[sentence, beam, token]
    values = plain[sentence, beam, token]
    found: list[list[Candidate]] = [[] for _ in range(len(totals))]
    order = np.lexsort((-scores, sentence))  # stable: equals stay in the order of beams and tokens
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
