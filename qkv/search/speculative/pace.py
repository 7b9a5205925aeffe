"""How long the next drafts should be: long where they were right, none where they were not."""

from collections.abc import Sequence
from typing import Protocol

OVERHEAD = 16.0
"""What a pass costs beside its positions, counted in positions: for few rows most of a pass is reading the weights."""
FIRST_GUESS = 0.8
"""How often a token of a draft is right, before anything is known."""
TRUST = 3.0
"""How many passes that first guess counts for."""
MEMORY = 0.8
"""How much of what was known still counts after a pass."""
HOPE = 0.005
"""How far the guess moves back to the first one with each pass without a draft: so that one is tried again."""

Outcome = tuple[int, int]
"""Of one draft: how many of its tokens were right, and how many it had."""


class DraftPace(Protocol):
    """Decides how long drafts are; outputs never depend on it."""

    def length(self, rows: int) -> int:
        """How many tokens to draft for each of so many sentences."""

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        """After a pass: what became of the draft of each row."""


class FullPace:
    """Always whole blocks."""

    def __init__(self, block: int) -> None:
        self.block = block

    def length(self, rows: int) -> int:
        return self.block

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        pass


class AdaptivePace:
    """The length k with the most tokens for the work:

        max_k (1 + p_1 + p_1 p_2 + ... + p_1 ... p_k) rows / (overhead + (1 + k) rows)

    where p_j, how often token j of a draft is right if those before it are, is a mean of what was seen that forgets.
    A drafter that is always wrong is soon asked for nothing, and with many rows, where a position costs as much as it
    does in a step, only drafts that are nearly certain pay.
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
