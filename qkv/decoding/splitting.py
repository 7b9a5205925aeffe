"""A text that is too long for a model, in parts that are not: sentences, else clauses, else words, else characters."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from qkv.text import Tokenizer

Level = Literal["sentence", "clause", "word", "character"]
LEVELS: tuple[Level, ...] = ("sentence", "clause", "word", "character")
CLOSING = "\"'”’»)\\]"
MARKS = {
    "sentence": re.compile(rf"(?P<mark>[.!?…]+[{CLOSING}]*)\s+|(?P<wide>[。！？]+[」』”）]*)\s*|\s*\n\s*"),
    "clause": re.compile(rf"(?P<mark>[,;:–—]+[{CLOSING}]*)\s+|(?P<wide>[，；：、]+)\s*"),
    "word": re.compile(r"(?P<mark>)\s+"),
}
NO_END = re.compile(r"(?:^|[\s(])(?:\w|\d{1,2}|Mr|Mrs|Ms|Dr|Prof|St|Nr|No|bzw|ca|vs|etc|e\.g|i\.e)\.$")
"""A full stop that ends no sentence: initials, ordinals, common abbreviations."""
BYTES = 4
"""No tokenizer makes more tokens of a character."""


class Unit(NamedTuple):
    """A stretch of text that stays together, and the white space behind it."""

    text: str
    gap: str


@dataclass(frozen=True)
class Split:
    """The parts of a text; with one part it is whole."""

    parts: list[str]
    gaps: list[str] = field(default_factory=list)
    """The white space between each part and the next."""
    at: Level | None = None
    """Where it was split; if at several kinds of places, the smallest."""


class Splitter:
    """Splits texts that have more than `longest` tokens, END included, or where they have several sentences, more than
    `usual` tokens. A sentence is broken up only if it is longer than `longest` by itself. Parts are as large as may be.
    """

    def __init__(self, tokenizer: Tokenizer, longest: int | None, usual: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.longest = longest
        limits = [limit for limit in (longest, usual) if limit is not None]
        self.limit = min(limits, default=None)
        self.space = len(tokenizer.encode("a a")) - 2 * len(tokenizer.encode("a"))
        """Tokens of a space between two words: those of characters have one."""

    def fits(self, tokens: int) -> bool:
        """Whether a text of so many tokens, END included, need not be looked at."""
        return self.limit is None or tokens <= self.limit

    def split(self, text: str) -> Split:
        units, at = self._units([Unit(text, "")], 0)
        parts = [part for group in self._groups(units) for part in self._checked(group)]
        if len(parts) == 1:
            return Split([text])
        return Split([_joined(part) for part in parts], [part[-1].gap for part in parts[:-1]], at)

    def _units(self, given: Sequence[Unit], level: int) -> tuple[list[Unit], Level]:
        """The sentences, and what those that are too long consist of; and the smallest kind of place of them all."""
        found: list[Unit] = []
        smallest = level
        pieces = [piece for unit in given for piece in self._cut(unit, LEVELS[level])]
        for piece, tokens in zip(pieces, self._count(piece.text for piece in pieces), strict=True):
            if self.longest is None or tokens <= self.longest or level + 1 == len(LEVELS):
                found.append(piece)
            else:
                smaller, at = self._units([piece], level + 1)
                found += smaller
                smallest = max(smallest, LEVELS.index(at))
        return found, LEVELS[smallest]

    def _cut(self, unit: Unit, level: Level) -> list[Unit]:
        if level == "character":
            assert self.longest is not None
            size = max(1, (self.longest - 1) // BYTES)
            slices = [unit.text[start : start + size] for start in range(0, len(unit.text), size)]
            return [*(Unit(text, "") for text in slices[:-1]), Unit(slices[-1], unit.gap)]
        found, start = [], 0
        for match in MARKS[level].finditer(unit.text):
            end = max(
                (match.end(name) for name in match.re.groupindex if match[name] is not None), default=match.start()
            )
            if start < end and match.end() < len(unit.text) and not _goes_on(unit.text, start, end, match.end(), level):
                found.append(Unit(unit.text[start:end], unit.text[end : match.end()]))
                start = match.end()
        return [*found, Unit(unit.text[start:], unit.gap)]

    def _groups(self, units: Sequence[Unit]) -> list[list[Unit]]:
        """Units that follow each other, as many as fit."""
        assert self.limit is not None
        groups: list[list[Unit]] = []
        filled = 0
        for unit, tokens in zip(units, self._count(unit.text for unit in units), strict=True):
            if not groups or filled + tokens > self.limit:
                groups.append([])
                filled = 0
            groups[-1].append(unit)
            filled += tokens - 1 + (self.space if unit.gap else 0)
        return groups

    def _checked(self, group: list[Unit]) -> list[list[Unit]]:
        """The group, or its halves if together they have more tokens than one by one."""
        (tokens,) = self._count([_joined(group)])
        if len(group) == 1 or self.longest is None or tokens <= self.longest:
            return [group]
        middle = len(group) // 2
        return [*self._checked(group[:middle]), *self._checked(group[middle:])]

    def _count(self, texts: Iterable[str]) -> list[int]:
        """Tokens of each text, END included."""
        return [len(ids) + 1 for ids in self.tokenizer.encode_batch(list(texts))]


def splitter(tokenizer: Tokenizer, longest: int | None, usual: int | None, overlap: bool) -> Splitter:
    """With `overlap` two parts are read at once, so each is half as long at most."""
    if overlap and longest is not None:
        longest = max(2, longest // 2)
    return Splitter(tokenizer, longest, usual if usual is None or not overlap else max(2, usual // 2))


def _goes_on(text: str, start: int, end: int, after: int, level: Level) -> bool:
    """Whether what looks like the end of a sentence is none."""
    if level != "sentence" or "\n" in text[end:after]:
        return False
    return text[after].islower() or bool(NO_END.search(text, start, end))


def _joined(units: Sequence[Unit]) -> str:
    return "".join(unit.text + unit.gap for unit in units[:-1]) + units[-1].text
