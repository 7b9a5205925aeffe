"""Subword regularisation: BPE-dropout, and sampling from a unigram lattice.

The libraries' own sampling cannot be seeded for one sentence, so it is done here, as a function of a
`random.Random`. Words repeat, so the deterministic part is cached for recent words.
"""

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate
from random import Random
from typing import NamedTuple

Ranks = Mapping[tuple[str, str], int]
"""Which two neighbours may be merged; the smallest rank goes first."""

WORDS_KEPT = 2**16


def merge(symbols: Sequence[str], ranks: Ranks, dropped: Callable[[], bool] = lambda: False) -> list[str]:
    """BPE: merge the neighbours of smallest rank (leftmost first) until no two may be merged.

    BPE-dropout (Provilkov 2020): in each round every possible merge is dropped with some probability, and
    the first survivor is applied; the word is finished when none survives. Only merges that come before
    the survivor need a toss of `dropped`: the others are tossed anew in the next round.
    """
    pieces = [*symbols, ""]
    before = list(range(-1, len(symbols)))
    after = list(range(1, len(symbols) + 2))
    queue: list[tuple[int, int]] = []

    def offer(left: int) -> None:
        rank = ranks.get((pieces[left], pieces[after[left]]))
        if rank is not None:
            heappush(queue, (rank, left))

    for place in range(len(symbols)):
        offer(place)
    while (left := _first_survivor(queue, pieces, after, ranks, dropped)) is not None:
        right = after[left]
        pieces[left] += pieces[right]
        pieces[right] = ""
        after[left] = after[right]
        before[after[right]] = left
        offer(left)
        if before[left] >= 0:
            offer(before[left])
    return [piece for piece in pieces if piece]


def _first_survivor(
    queue: list[tuple[int, int]], pieces: list[str], after: list[int], ranks: Ranks, dropped: Callable[[], bool]
) -> int | None:
    """Pop the best merge that is not dropped; the dropped ones are requeued for the next round."""
    waiting = []
    survivor = None
    while queue:
        rank, left = heappop(queue)
        if ranks.get((pieces[left], pieces[after[left]])) != rank:
            continue  # a merge since then has used up one of the two neighbours
        if not dropped():
            survivor = left
            break
        waiting.append((rank, left))
    for candidate in waiting:
        heappush(queue, candidate)
    return survivor


class Tosses:
    """Independent coin tosses, true with probability `rate`, drawn as the gaps between the true ones.

    P(gap = k) = (1 - rate)^k rate, so gap = floor(log(u) / log(1 - rate)) for uniform u.
    """

    def __init__(self, rate: float, random: Random) -> None:
        self._random = random
        self._scale = 1 / math.log1p(-rate) if rate < 1 else 0.0
        self._gap = self._draw()

    def _draw(self) -> int:
        return int(math.log(1.0 - self._random.random()) * self._scale)

    def __call__(self) -> bool:
        if self._gap:
            self._gap -= 1
            return False
        self._gap = self._draw()
        return True

    def all_false(self, count: int) -> bool:
        """Toss `count` times if none of them comes out true; otherwise toss nothing."""
        if self._gap < count:
            return False
        self._gap -= count
        return True


class MergeSampler:
    """Words to pieces by BPE-dropout at `rate` > 0."""

    def __init__(self, ranks: Ranks, rate: float) -> None:
        self._ranks = ranks
        self._rate = rate
        self._undisturbed = lru_cache(WORDS_KEPT)(lambda word: merge(word, ranks))

    def __call__(self, words: Iterable[str], random: Random) -> Iterator[str]:
        tosses = Tosses(self._rate, random)
        for word in words:
            pieces = self._undisturbed(word)
            # Each merge removes one piece and takes one toss: without a drop the cached result holds.
            if not tosses.all_false(len(word) - len(pieces)):
                pieces = merge(word, self._ranks, tosses)
            yield from pieces


class Arrivals(NamedTuple):
    """The pieces that end at one position of a word: their starts and cumulative weights."""

    starts: list[int]
    cumulative: list[float]


class UnigramSampler:
    """Samples segmentations of words with probability proportional to exp(alpha * sum of piece scores).

    A character that is not a piece is a piece of its own with the score `unknown`.
    """

    def __init__(self, scores: Mapping[str, float], unknown: float, alpha: float) -> None:
        self._scores = scores
        self._unknown = unknown
        self._alpha = alpha
        self._longest = max(map(len, scores), default=1)
        self._lattice = lru_cache(WORDS_KEPT)(self._filter)

    def __call__(self, words: Iterable[str], random: Random) -> Iterator[str]:
        for word in words:
            yield from self._cut(word, random)

    def _filter(self, word: str) -> list[Arrivals]:
        """Forward filtering: total[end] = log sum over pieces word[start:end] of exp(alpha * score + total[start])."""
        total = [0.0]
        lattice = []
        for end in range(1, len(word) + 1):
            starts, logs = [], []
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(word[start:end], self._unknown if start == end - 1 else None)
                if score is not None:
                    starts.append(start)
                    logs.append(self._alpha * score + total[start])
            top = max(logs)
            cumulative = list(accumulate(math.exp(log - top) for log in logs))
            total.append(top + math.log(cumulative[-1]))
            lattice.append(Arrivals(starts, cumulative))
        return lattice

    def _cut(self, word: str, random: Random) -> list[str]:
        """Backward sampling: from the end of the word, draw the piece that arrives there."""
        lattice = self._lattice(word)
        pieces = []
        end = len(word)
        while end:
            starts, cumulative = lattice[end - 1]
            # The product may round up to the whole sum; the last piece is then meant.
            place = bisect(cumulative, random.random() * cumulative[-1], hi=len(cumulative) - 1)
            start = starts[place]
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]
