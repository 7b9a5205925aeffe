"""A draft of the whole output, made in advance: followed, left where it is wrong, and resumed."""

from collections.abc import Sequence

from qkv.search.speculative.drafters.base import Checked

MEMORY = 3
"""Number of last output tokens that are searched for in the draft."""


class Guide:
    """The draft of one sentence, and the output's position in it."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.at = 0
        self.seen = 0

    def after(self, kept: Sequence[int]) -> list[int]:
        """The rest of the draft after the output `kept`, which only grows between calls."""
        for token in kept[self.seen :]:
            if self.at < len(self.tokens) and self.tokens[self.at] == token:
                self.at += 1
            else:
                self.at = self._after_mistake(kept)
                break
        self.seen = len(kept)
        return self.tokens[self.at :]

    def _after_mistake(self, kept: Sequence[int]) -> int:
        """After the nearest match of the output's last tokens; without one, assume that one token was replaced."""
        for size in range(min(MEMORY, len(kept)), 0, -1):
            end = list(kept[-size:])
            found = [at for at in range(size, len(self.tokens) + 1) if self.tokens[at - size : at] == end]
            if found:
                return min(found, key=lambda at: abs(at - self.at - 1))
        return self.at + 1


class GuidedDrafts:
    """One guide per sentence of a batch."""

    def __init__(self, guides: Sequence[Sequence[int]]) -> None:
        self.guides = [Guide(tokens) for tokens in guides]

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        return self.guides[sentence].after(kept)[:count]

    def learn(self, checked: Checked) -> None:
        pass
