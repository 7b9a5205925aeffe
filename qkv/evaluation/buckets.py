"""Scores by group: outputs by length, and words by their training frequency."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation.metrics.base import References
from qkv.evaluation.metrics.sacre import Bleu
from qkv.evaluation.resampling import Interval, intervals

MOST_GROUPS = 6
FREQUENCIES = ((0, 0), (1, 1), (2, 4), (5, 9), (10, 99), (100, 999), (1000, None))


@dataclass(frozen=True)
class LengthGroup:
    """Outputs within a range of lengths."""

    low: int
    high: int
    members: list[int]

    @property
    def label(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


def length_groups(lengths: Sequence[int], most: int = MOST_GROUPS) -> list[LengthGroup]:
    """Groups of about equal size; equal lengths are in the same group."""
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, most + 1)[1:], method="lower"))
    place = np.searchsorted(edges, lengths)
    groups = []
    for number in range(len(edges)):
        members = np.flatnonzero(place == number).tolist()
        found = [lengths[member] for member in members]
        groups.append(LengthGroup(min(found), max(found), members))
    return groups


@dataclass(frozen=True)
class LengthUnit:
    """What length is counted in."""

    name: str
    count: Callable[[str], int]


def length_unit(texts: Sequence[str]) -> LengthUnit:
    """Words, or letters where a text is mostly one word."""
    one_word = sum(len(text.split()) <= 1 for text in texts)
    if 2 * one_word > len(texts):
        return LengthUnit("letters", lambda text: len(text.strip()))
    return LengthUnit("words", lambda text: len(text.split()))


class F1:
    """The harmonic mean of precision and recall: 2 · matched / (in outputs + in references)."""

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(200.0 * total[0] / max(total[1] + total[2], 1))


@dataclass(frozen=True)
class WordGroup:
    """Words of similar training frequency, and how well the outputs match them."""

    low: int
    high: int | None
    matched: int
    in_outputs: int
    in_references: int
    f1_interval: Interval

    @property
    def label(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"

    @property
    def precision(self) -> float:
        return 100.0 * self.matched / max(self.in_outputs, 1)

    @property
    def recall(self) -> float:
        return 100.0 * self.matched / max(self.in_references, 1)

    @property
    def f1(self) -> float:
        return F1().from_total(np.asarray([self.matched, self.in_outputs, self.in_references], dtype=np.float64))


def training_frequencies(texts: Iterable[str]) -> Counter[str]:
    """How often each word is in the training targets."""
    words = Bleu().words
    return Counter(word for text in texts for word in words(text))


def word_groups(outputs: Sequence[str], references: References, frequencies: Counter[str]) -> list[WordGroup]:
    """Every word of outputs and references, by its frequency in training. The reference that shares most words counts.

    A word is matched as often as it is in both the output and the reference, wherever it stands.
    """
    words = Bleu().words
    rows = np.zeros((len(FREQUENCIES), len(outputs), 3))  # matched, in the output, in the reference
    for number, (output, answers) in enumerate(zip(outputs, references, strict=True)):
        mine, theirs = Counter(words(output)), [Counter(words(answer)) for answer in answers]
        best = max(range(len(theirs)), key=[(mine & other).total() for other in theirs].__getitem__)
        for kind, found in enumerate((mine & theirs[best], mine, theirs[best])):
            for word, times in found.items():
                rows[_place(frequencies[word]), number, kind] += times
    there = [place for place in range(len(FREQUENCIES)) if rows[place].any()]
    found_intervals = intervals([F1()] * len(there), [rows[place] for place in there]) if there else []
    groups = []
    for place, interval in zip(there, found_intervals, strict=True):
        matched, in_outputs, in_references = rows[place].sum(axis=0).astype(int).tolist()
        low, high = FREQUENCIES[place]
        groups.append(WordGroup(low, high, matched, in_outputs, in_references, interval))
    return groups


def _place(frequency: int) -> int:
    return next(place for place, (_, high) in enumerate(FREQUENCIES) if high is None or frequency <= high)
