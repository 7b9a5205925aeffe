"""The Pharaoh format: a line `0-0 1-2` links source word 0 to target word 0 and source word 1 to target word 2."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from qkv.core.errors import DataError
from qkv.data.lines import byte_lines

LINK = re.compile(r"([0-9]{1,9})([-?])([0-9]{1,9})", re.ASCII)

Link = tuple[int, int]
"""(source word, target word), counted from 0."""


class Alignment(NamedTuple):
    """The links of one pair."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()
    """Links that are neither right nor wrong, written `1?2`."""
    where: str = ""
    """The line that it was read from, such as `train.align:3`."""

    def check(self, src_words: int, tgt_words: int) -> None:
        """Raise DataError if a link is outside a pair of so many words."""
        for src, tgt in sorted(self.sure | self.possible):
            for side, word, words in (("source", src, src_words), ("target", tgt, tgt_words)):
                if word >= words:
                    raise DataError(
                        f"{self.where}: links {src}-{tgt}, but the {side} has {words} word(s), counted from 0; "
                        "is it the alignment of another line, or of the other direction?"
                    )


def parse_alignment(text: str, where: str) -> Alignment:
    """The links of a line; `where` names it in messages. An empty line has none."""
    found: dict[str, set[Link]] = {"-": set(), "?": set()}
    for word in text.split():
        match = LINK.fullmatch(word)
        if match is None:
            raise DataError(f"{where}: {word!r} is not a link; write source-target, counted from 0, as in 0-0 1-2")
        src, sign, tgt = match.groups()
        found[sign].add((int(src), int(tgt)))
    return Alignment(frozenset(found["-"]), frozenset(found["?"]), where)


class AlignmentLines:
    """The lines of a file, read in order; some may be skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = byte_lines(path)
        self._read = 0

    def at(self, line: int) -> Alignment:
        """The alignment on this line, counted from 1, which is behind those read before."""
        raw = next(islice(self._lines, line - self._read - 1, None), None)
        if raw is None:
            raise DataError(f"{self._path}: has no line {line}; give a line for each pair")
        self._read = line
        return parse_alignment(raw.decode("ascii", "replace"), f"{self._path}:{line}")


def read_alignments(path: Path) -> Iterator[Alignment]:
    """All lines of a file."""
    for line, raw in enumerate(byte_lines(path), start=1):
        yield parse_alignment(raw.decode("ascii", "replace"), f"{path}:{line}")


def format_links(links: Iterable[Link]) -> str:
    """`0-0 1-2`, in order."""
    return " ".join(f"{src}-{tgt}" for src, tgt in sorted(links))
