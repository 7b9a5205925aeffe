"""Right and wrong answers: their share with its confidence interval, and what is mistaken for what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation.resampling import Interval, intervals


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers, per cent."""

    value: float
    interval: Interval

    def as_dict(self) -> dict[str, float]:
        """Plain data, for JSON."""
        return {"accuracy": self.value, "low": self.interval.low, "high": self.interval.high}

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.interval.half_width:.2f} % right"


class _Share:
    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100 * total[0] / total[1])


def accuracy_of(right: Sequence[int], answers: Sequence[int]) -> Accuracy:
    """Of examples, `right[i]` of whose `answers[i]` are right; the bootstrap draws whole examples."""
    rows = np.array([right, answers], dtype=np.float64).T
    (interval,) = intervals([_Share()], [rows])
    return Accuracy(_Share().from_total(rows.sum(axis=0)), interval)


def answer_row(label: str, said: Mapping[str, int]) -> list[str]:
    """Of a table: a true label, how often it occurs, how often it is right, and what is said most often instead."""
    own, right = sum(said.values()), said.get(label, 0)
    wrong = Counter({other: count for other, count in said.items() if other != label and count})
    mistaken = [f"{other} ({count})" for other, count in wrong.most_common(1)]
    return [label, f"{own:,}", f"{100 * right / own:.1f}" if own else "", *(mistaken or [""])]
