"""The length of the next drafts, adapted to how many tokens were accepted."""

from collections.abc import Sequence
from typing import Protocol

OVERHEAD = 16.0
"""The fixed cost of a pass, in positions: with few rows, most of a pass is reading the weights."""
FIRST_GUESS = 0.8
"""Prior acceptance rate of a draft token."""
TRUST = 3.0
"""Weight of the prior, in passes."""
MEMORY = 0.8
"""Decay of the statistics per pass."""
HOPE = 0.005
"""Drift towards the prior with each pass without a draft, so that drafting is tried again."""

Outcome = tuple[int, int]
"""Of one draft: the numbers of accepted and of drafted tokens."""


class DraftPace(Protocol):
    """Chooses the length of drafts; outputs never depend on it."""

    def length(self, rows: int) -> int:
        """The number of tokens to draft for each of `rows` sentences."""

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        """Called after a pass, with the outcome of each row's draft."""


class FullPace:
    """Always the maximum length."""

    def __init__(self, block: int) -> None:
        self.block = block

    def length(self, rows: int) -> int:
        return self.block

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        pass


class AdaptivePace:
    """The length k with the most tokens for the work:

        max_k (1 + p_1 + p_1 p_2 + ... + p_1 ... p_k) rows / (overhead + (1 + k) rows)

    where p_j, the acceptance rate of token j of a draft if those before it are accepted, is a decaying mean.
    A drafter that is always wrong is soon not used, and with many rows, where a position costs as much as in a step,
    only nearly certain drafts pay.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.right, self.tried = [TRUST * FIRST_GUESS] * block, [TRUST] * block

    def length(self, rows: int) -> int:
        best, longest = 1 / (OVERHEAD + rows), 0
        tokens = sure = 1.0
        for place in range(self.block):
            sure *= self.right[place] / self.tried[place]
            tokens += sure
            gain = tokens / (OVERHEAD + (2 + place) * rows)
            if gain > best:
                best, longest = gain, place + 1
        return longest

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        if not any(drafted for _, drafted in outcomes):
            self.right[0] += HOPE * (FIRST_GUESS * self.tried[0] - self.right[0])
        for place in range(self.block):
            seen = [right > place for right, drafted in outcomes if drafted > place and right >= place]
            if not seen:
                break
            # Every pass counts the same, however many rows it has.
            self.right[place] = MEMORY * self.right[place] + sum(seen) / len(seen)
            self.tried[place] = MEMORY * self.tried[place] + 1
