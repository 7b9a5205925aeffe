"""What tables as text have in common: rows of fields, and a header that names the columns or none."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field

from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers.base import OneFileCorpus

KNOWN = """
src tgt source target input output text texts sentence sentences line phrase word words token tokens original
translation translated question answer query response prompt completion command commands action actions label labels
class grapheme graphemes phoneme phonemes letters sounds spelling pronunciation ipa lemma form inflected article summary
document headline title plural singular features key value noisy clean wrong right
english german french spanish italian portuguese dutch russian ukrainian polish czech chinese japanese korean arabic
hebrew turkish hindi swedish danish norwegian finnish hungarian greek romanian latin
deutsch francais français espanol español italiano
eng deu ger fra fre spa ita por nld rus ukr pol ces zho jpn kor ara heb tur hin swe dan nor fin hun
"""
NAMES = frozenset(KNOWN.split())
"""Sides, units, tasks and languages."""
AMBIGUOUS = "ar bg cs da de el en es fi fr he hi hu id it ja ko la nl no pl pt ro ru sv tr uk x y zh"
CODES = frozenset(AMBIGUOUS.split())
"""Names that are also words ("no", "ja"): they count beside another name."""
IDENTIFIER = re.compile(r"[^\W\d]\w*(?:[ .-]\w+)?")
PARTS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])|\d+")
LONGER = 3
"""Words of an ordinary text from which on a single lower-case word stands out."""


def looks_like_header(first: tuple[str, str], others: Sequence[tuple[str, str]]) -> bool:
    """Both sides are names, or could be and one certainly is, or single words stand above whole sentences."""
    cells = [cell.strip() for cell in first]
    if not all(IDENTIFIER.fullmatch(cell) for cell in cells):
        return False
    if any(_is_name(cell) for cell in cells) or all(cell.lower() in CODES for cell in cells):
        return not any(tuple(cells) == (src.strip(), tgt.strip()) for src, tgt in others)
    lengths = [median(len(pair[side].split()) for pair in others) if others else 0 for side in (0, 1)]
    return min(lengths) >= LONGER and all(cell.islower() and " " not in cell for cell in cells)


def _is_name(cell: str) -> bool:
    """A known name, or one made of known parts such as `src_text`, `text1` or `en_sentence`."""
    parts = [part.lower() for part in PARTS.split(cell) if part]
    return not NAMES.isdisjoint(parts) and (NAMES | CODES).issuperset(parts)


Column = Annotated[int, Field(ge=0)] | str
"""The number of a column, counted from 0, or its name in the header."""
Row = tuple[int, list[str] | None]
"""The line where a row begins and its fields: none in an empty row, None for invalid text that is to be skipped."""

LOOKED_AT = 200
"""Rows that a possible header is compared with."""


class TableCorpus(OneFileCorpus):
    """Two columns of a text file."""

    @property
    def headed(self) -> bool:
        """Whether the first row names the columns."""
        raise NotImplementedError

    def columns(self) -> dict[str, Column]:
        """The columns of source and target, by the key that names them."""
        raise NotImplementedError

    def rows(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[Row]:
        """All rows, the header included."""
        raise NotImplementedError

    def possible_header(self, root: Path) -> bool:
        """Whether a first row that would be taken for a pair looks like names; not asked where `header` is given."""
        pairs = ((pair.src, pair.tgt) for pair in self.read(root, "replace", ReadCounts()))
        return self.header_in_doubt and looks_like_header(next(pairs), list(islice(pairs, LOOKED_AT)))

    @property
    def header_in_doubt(self) -> bool:
        """Whether the first row is read as a pair although nobody said that it is one."""
        return not self.headed and "header" not in self.model_fields_set

    def records(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, tuple[str, str] | None]]:
        rows = self.rows(path, invalid, counts)
        names = _header(rows, path) if self.headed else []
        src, tgt = ((key, self._place(column, names, path)) for key, column in self.columns().items())
        for line, fields in rows:
            if fields:
                yield line, (_field(fields, *src, path, line), _field(fields, *tgt, path, line))
            else:
                yield line, None if fields is None else ("", "")

    def _place(self, column: Column, names: list[str], path: Path) -> int:
        """The number of a column."""
        if isinstance(column, int):
            return column
        if names.count(column) == 1:
            return names.index(column)
        if not names:
            raise DataError(f"{path}: is empty; give a file with a header and at least one pair")
        problem = f"has {names.count(column)} columns" if column in names else "has no column"
        there = ", ".join(map(repr, names))
        raise DataError(f"{path}:1: {problem} {column!r}; the columns are {there}; {self._remedy(names)}")

    def _remedy(self, names: list[str]) -> str:
        """How to choose the columns, by name and, where the first row may be a pair, by number."""
        src, tgt = self.columns()
        if len(names) < 2:
            return "correct the separator of the columns"
        unique = all(names.count(name) == 1 for name in names[:2])
        first, second = (json.dumps(name, ensure_ascii=False) for name in names[:2]) if unique else "01"
        kind = type(self).model_fields["kind"].default
        start = f"{{kind: {kind}, path: {self.path}"
        remedy = f"set {src} and {tgt}, as in {start}, {src}: {first}, {tgt}: {second}}}"
        if looks_like_header((names[0], names[1]), []):
            return remedy
        numbers = f"{start}, header: false, {src}: 0, {tgt}: 1}}"
        return f"{remedy}; if the file has no header, set header: false with column numbers, as in {numbers}"


def _header(rows: Iterator[Row], path: Path) -> list[str]:
    """The first row that is not blank."""
    for line, names in rows:
        if names is None:
            raise DataError(f"{path}:{line}: the header is not valid UTF-8; save the file as UTF-8")
        if any(name.strip() for name in names):
            return [name.strip() for name in names]
    return []


def _field(fields: Sequence[str], key: str, place: int, path: Path, line: int) -> str:
    if place < len(fields):
        return fields[place]
    raise DataError(
        f"{path}:{line}: has {len(fields)} column(s), so there is no column {place} ({key}, counted from 0); "
        "complete the line, or correct the separator or the key"
    )
