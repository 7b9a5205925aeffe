"""Confidence intervals and significance tests: bootstrap and approximate randomisation over rows of counts.

The draws, seeds and definitions are those of sacreBLEU, so its p-values come out (a test compares them). They are
made here, a bounded piece at a time, because sacreBLEU's own need gigabytes for ten thousand outputs and know only its
metrics; and it calls two equal systems different (p = 0.001), which here are equal (p = 1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qkv.core.progress import Counting
from qkv.evaluation.metrics.base import Counts, Metric

SEED = 12345
RESAMPLES = 1000
SHUFFLES = 10_000
PIECE = 4_000_000
"""The number of random choices held in memory at once."""
EQUAL = 1e-9
"""Scores that differ by less are equal: a sum in another order rounds differently."""

Scores = NDArray[np.float64]
"""[draws, metrics]"""


def silent(done: int, total: int | None) -> None:
    """Reports no progress."""


@dataclass(frozen=True)
class Interval:
    """The 95 % bootstrap confidence interval of a score."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class PairedTest:
    """How a system differs from the baseline in one metric."""

    difference: float
    interval: Interval
    """Of the difference."""
    bootstrap: float
    randomization: float
    """p-values: how often chance alone gives such a difference."""

    def significant(self, level: float = 0.05) -> bool:
        """By both tests."""
        return max(self.bootstrap, self.randomization) < level


class FromTotal(Protocol):
    """What makes a score of summed rows: a metric, or a part of one."""

    def from_total(self, total: NDArray[np.float64]) -> float: ...


def intervals(metrics: Sequence[FromTotal], rows: Sequence[Counts], progress: Counting = silent) -> list[Interval]:
    """The bootstrap interval of each metric; `rows` holds the counts for each of them."""
    scores = _resampled(metrics, rows, progress)
    return [_interval(scores[:, index]) for index in range(len(metrics))]


def paired_tests(
    metrics: Sequence[Metric], baseline: Sequence[Counts], system: Sequence[Counts], progress: Counting = silent
) -> list[PairedTest]:
    """Test the system against the baseline; both have one array of counts for each metric."""
    resampled = _resampled([*metrics, *metrics], [*baseline, *system], progress)
    shuffled = _shuffled(metrics, baseline, system, progress)
    found = []
    for index, metric in enumerate(metrics):
        before, after = (metric.from_total(counts[index].sum(axis=0)) for counts in (baseline, system))
        difference = after - before
        drawn = resampled[:, len(metrics) + index] - resampled[:, index]
        # sacreBLEU's form: sizes of differences around their mean, against the size that was found.
        sizes = np.abs(drawn)
        found.append(
            PairedTest(
                difference,
                _interval(drawn),
                _p_value(sizes - sizes.mean(), abs(difference)),
                _p_value(np.abs(shuffled[:, index]), abs(difference)),
            )
        )
    return found


def _p_value(drawn: NDArray[np.float64], found: float) -> float:
    """The share of draws at least as extreme as the observed value, which counts as one of them."""
    return float((np.sum(drawn >= found - EQUAL) + 1) / (len(drawn) + 1))


def _interval(scores: NDArray[np.float64]) -> Interval:
    ordered = np.sort(scores)
    edge = len(ordered) // 40
    return Interval(float(ordered.mean()), float(ordered[edge]), float(ordered[-edge - 1]))


def _resampled(metrics: Sequence[FromTotal], rows: Sequence[Counts], progress: Counting) -> Scores:
    """[RESAMPLES, metrics]: scores of test sets that are drawn from this one, with replacement."""
    together = np.concatenate(rows, axis=1)
    size = len(together)
    random = np.random.default_rng(SEED)
    scores: list[NDArray[np.float64]] = []
    for pieces in _pieces(RESAMPLES, size):
        drawn = random.choice(size, size=(pieces, size), replace=True)
        # How often each output was drawn, times its counts: the sums without copying the counts of every draw.
        drawn += np.arange(pieces)[:, None] * size
        times = np.bincount(drawn.ravel(), minlength=pieces * size).reshape(pieces, size)
        scores.extend(_scores(metrics, rows, times @ together))
        progress(len(scores), RESAMPLES)
    return np.asarray(scores)


def _shuffled(metrics: Sequence[Metric], a: Sequence[Counts], b: Sequence[Counts], progress: Counting) -> Scores:
    """[SHUFFLES, metrics]: differences between systems that swap a random half of their outputs."""
    first, second = np.concatenate(a, axis=1), np.concatenate(b, axis=1)
    both = first.sum(axis=0) + second.sum(axis=0)
    random = np.random.default_rng(SEED)
    differences: list[NDArray[np.float64]] = []
    for pieces in _pieces(SHUFFLES, len(first)):
        mine = random.integers(2, size=(pieces, len(first)), dtype=bool).astype(np.float64)
        mixed = mine @ (first - second) + second.sum(axis=0)
        differences.extend(_scores(metrics, a, mixed) - _scores(metrics, a, both - mixed))
        progress(len(differences), SHUFFLES)
    return np.asarray(differences)


def _scores(metrics: Sequence[FromTotal], rows: Sequence[Counts], totals: NDArray[np.float64]) -> Scores:
    """For each total (a row with the counts of all metrics side by side), the scores of all metrics."""
    edges = np.cumsum([counts.shape[1] for counts in rows])[:-1]
    parts = zip(metrics, np.split(totals, edges, axis=1), strict=True)
    return np.asarray([[metric.from_total(total) for total in part] for metric, part in parts]).T


def _pieces(draws: int, size: int) -> Iterator[int]:
    """How many draws to make at once. Multiples of 32, so that the random bits are those of one large draw."""
    most = max(32, PIECE // size // 32 * 32)
    for start in range(0, draws, most):
        yield min(most, draws - start)
