"""How long an output may be, learnt from the pairs of the training data."""

import math

import numpy as np
import numpy.typing as npt
from pydantic import Field

from qkv.config.base import Config
from qkv.data.store import LengthArray

COVERED = 0.999
"""The share of training pairs that lie on or below the fitted line."""
MARGIN = 2.0
"""The limit as a multiple of the fitted line: outputs may be longer than anything in training."""
SPARE = 10
"""Additional tokens, for short sources."""
LONGEST = 4096
"""Without a longer target in the training data no output is longer: the fast engines write as much."""
SLOPES = 33
"""The number of lines compared."""
AT_ONCE = 1 << 20
"""Pairs that are counted together, which bounds memory."""


class LengthLimit(Config):
    """An output has at most min(`factor` x source tokens + `extra`, `most`) tokens; END is counted on both sides."""

    factor: float = Field(ge=0)
    """Tokens for each token of the source."""
    extra: int = Field(ge=0)
    """Tokens on top of these."""
    most: int | None = Field(default=None, ge=1)
    """The longest output for any source; null: no bound."""


BEFORE = LengthLimit(factor=2.0, extra=10)
"""The limit of a model that was saved without one."""


def fit_length_limit(src_len: LengthArray, tgt_len: LengthArray) -> LengthLimit:
    """The limit for a model that learns from pairs of these lengths, END included.

    Of all lines a x source + b with b >= 0 that cover 99.9 % of the pairs, the one with the smallest mean; the limit is
    twice that line + 10. The slope a is at least the mean ratio of the two lengths, so that the limit keeps pace with
    sources that are longer than any in training, even where all of these had about the same length.
    """
    src, tgt, counts = _distinct(src_len, tgt_len)
    total, mean_src = int(counts.sum()), float(src @ counts) / float(counts.sum())
    flattest = float(tgt @ counts) / float(src @ counts)
    steepest = max(flattest, _covering(tgt / src, counts, total))
    lines = [(slope, max(0.0, _covering(tgt - slope * src, counts, total))) for slope in _between(flattest, steepest)]
    slope, height = min(lines, key=lambda line: line[0] * mean_src + line[1])
    return LengthLimit(
        factor=math.ceil(MARGIN * slope * 100) / 100,
        extra=math.ceil(MARGIN * height) + SPARE,
        most=max(LONGEST, 4 * int(tgt.max())),
    )


def _distinct(src_len: LengthArray, tgt_len: LengthArray) -> tuple[npt.NDArray[np.float64], ...]:
    """The distinct pairs of lengths with their counts."""
    keys, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for start in range(0, len(src_len), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        both = (src_len[part].astype(np.uint64) << np.uint64(32)) | tgt_len[part]
        more, times = np.unique(both, return_counts=True)
        keys, place = np.unique(np.concatenate([keys, more]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, times])).astype(np.int64)
    low = np.uint64(0xFFFFFFFF)
    return (keys >> np.uint64(32)).astype(np.float64), (keys & low).astype(np.float64), counts.astype(np.float64)


def _between(flattest: float, steepest: float) -> list[float]:
    slopes: list[float] = np.linspace(flattest, steepest, SLOPES).tolist()
    return slopes


def _covering(values: npt.NDArray[np.float64], counts: npt.NDArray[np.float64], total: int) -> float:
    """The smallest value that is not exceeded by `COVERED` of the pairs."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(counts[order])
    return float(values[order][np.searchsorted(reached, COVERED * total)])
