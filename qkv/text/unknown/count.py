"""Finds and counts the parts of a text that a tokenizer does not know and a model reads as <unk>."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qkv.config.words import shorten
from qkv.text.tokenizer import Tokenizer

SHOWN = 5
"""Examples in a remark."""


def unknown_pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words that are unknown as a whole, and of the other words the characters that are, in order; white space
    too, where the tokenizer gives it ids of its own."""
    unk = tokenizer.special.unk
    found = []
    pieces = re.findall(r"\s|\S+", tokenizer.normalize(text))
    for before, piece, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
        if piece.isspace():
            found += [piece] * _is_unknown_between(tokenizer, before, piece, after)
            continue
        ids = tokenizer.encode(piece)
        if unk not in ids:
            continue
        letters = [letter for letter in piece if unk in tokenizer.encode(letter)] if len(ids) > 1 else []
        found += letters or [piece]
    return found


def _is_unknown_between(tokenizer: Tokenizer, before: str, space: str, after: str) -> bool:
    """Whether `space` adds an <unk>. Alone it may be stripped, so it is encoded between its neighbours."""
    joined, left, right = (
        tokenizer.encode(part).count(tokenizer.special.unk) for part in (before + space + after, before, after)
    )
    return joined > left + right


@dataclass
class UnknownCount:
    """Counts texts with unknown pieces, and the pieces."""

    texts: int = 0
    pieces: Counter[str] = field(default_factory=Counter)

    def add(self, each: Iterable[Sequence[str]]) -> "UnknownCount":
        """Count the unknown pieces of some more texts."""
        for unknown in each:
            self.texts += bool(unknown)
            self.pieces.update(unknown)
        return self

    @property
    def examples(self) -> str:
        """The most frequent ones, each with how often it occurs."""
        shown = [
            f'"{shorten(piece)}"' + (f" ({times:,} times)" if times > 1 else "")
            for piece, times in self.pieces.most_common(SHOWN)
        ]
        return ", ".join([*shown, *(["..."] if len(self.pieces) > SHOWN else [])])

    @property
    def remark(self) -> str:
        """What follows the number of texts."""
        return (
            "have words or characters that the model does not know and reads as <unk>, "
            f"{self.pieces.total():,} in all: {self.examples}"
        )
