"""How long the next drafts should be: long where they were right, none where they were not."""

from typing import Protocol

OVERHEAD = 16.0
"""What a pass costs beside its positions, counted in positions: for few rows most of a pass is reading the weights."""
FIRST_GUESS = 0.9
"""How often a token of a draft is right, before anything is known."""
MEMORY = 0.8
"""How much of what was known still counts after a pass."""
HOPE = 0.005
"""How far the guess moves back to the first one with each pass without a draft: so that one is tried again."""


class Pace(Protocol):
    """Decides how long drafts are; outputs never depend on it."""

    def length(self, rows: int) -> int:
        """How many tokens to draft for each of so many sentences."""

    def saw(self, right: int, wrong: int) -> None:
        """After a pass: so many tokens of the drafts were right, and so many drafts ended with a wrong one."""


class FullPace:
    """Always whole blocks."""

    def __init__(self, block: int) -> None:
        self.block = block

    def length(self, rows: int) -> int:
        return self.block

    def saw(self, right: int, wrong: int) -> None:
        pass


class AdaptivePace:
    """The length k with the most tokens for the work:

        max_k (1 + p + p^2 + ... + p^k) rows / (overhead + (1 + k) rows)

    where p, how often a drafted token is right, is a mean of what was seen that forgets. A drafter that is always wrong
    is soon asked for nothing, and with many rows, where a position costs as much as it does in a step, only drafts that
    are nearly certain pay.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.right, self.tried = 5 * FIRST_GUESS, 5.0

    def length(self, rows: int) -> int:
        p = self.right / self.tried
        best, longest, tokens, power = 0.0, 0, 0.0, 1.0
        for k in range(self.block + 1):
            tokens += power
            power *= p
            gain = tokens / (OVERHEAD + (1 + k) * rows)
            if gain > best:
                best, longest = gain, k
        return longest

    def saw(self, right: int, wrong: int) -> None:
        tried = right + wrong
        if tried:
            # Every pass counts the same, however many rows it has.
            self.right = MEMORY * self.right + right / tried
            self.tried = MEMORY * self.tried + 1
        else:
            self.right += HOPE * (FIRST_GUESS * self.tried - self.right)
