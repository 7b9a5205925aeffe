"""Compares the search of another engine with ours by mean score, on a few sources."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from qkv.engines.base import DecodeRequest, Engine
from qkv.search.base import Constraints

COUNT = 8
TOKENS = 400
"""The maximum number of sources and of source tokens that are decoded twice: one small batch."""
TOLERANCE = 0.01
"""The part of a mean score by which it may be worse. Weak ENDs that stop a search too early cost a tenth and more."""


@dataclass(frozen=True)
class MeanScores:
    """Of the best outputs for the same sources."""

    theirs: float
    ours: float

    @property
    def worse(self) -> bool:
        return self.theirs < self.ours - TOLERANCE * abs(self.ours)

    def __str__(self) -> str:
        return f"a mean score of {self.theirs:.4f}, and torch {self.ours:.4f}"


def mean_scores(theirs: Engine, ours: Engine, sources: Sequence[list[int]], request: DecodeRequest) -> MeanScores:
    """Decode a few of `sources` with both engines."""
    few = some_of(sources)
    plain = replace(request, constraints=[Constraints()] * len(few), attention=False, token_scores=False)
    found = ([own[0].score for own in engine.decode(few, plain)] if few else [0.0] for engine in (theirs, ours))
    return MeanScores(*map(fmean, found))


def some_of(sources: Sequence[list[int]]) -> list[list[int]]:
    """Of all lengths, from the shortest to the longest, within `COUNT` and `TOKENS`; empty ones are left out."""
    ranked = sorted((ids for ids in sources if ids), key=len)
    count = min(COUNT, len(ranked))
    few: list[list[int]] = []
    for place in range(count):
        ids = ranked[place * (len(ranked) - 1) // max(count - 1, 1)]
        if sum(map(len, few)) + len(ids) <= TOKENS:
            few.append(ids)
    return few
