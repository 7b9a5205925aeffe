"""Corpora: where pairs of texts come from. Each kind streams `RawPair`s and says file:line when it cannot.

train:
  - {kind: text, src: train.en, tgt: train.de}
  - {kind: tsv, path: more.tsv.gz, weight: 0.5}
"""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from qkv.config.base import Config, Kinds
from qkv.data.lines import Policy, ReadCounts, byte_lines, decode
from qkv.errors import DataError


class RawPair(NamedTuple):
    """A pair as it stands in its file; `line` (for tables: row) counts from 1."""

    src: str
    tgt: str
    line: int


class CorpusConfig(Config):
    """A source of pairs."""

    weight: float = Field(default=1.0, gt=0, le=1000)
    """How many times an epoch goes through these pairs; 0.5 takes half of them, another half each epoch."""

    def files(self) -> dict[str, Path]:
        """The files that it reads, by the key that names them."""
        raise NotImplementedError

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        """Stream the pairs; paths are relative to `root`. Pairs with invalid text go as `invalid` says."""
        raise NotImplementedError


corpora = Kinds[CorpusConfig]("corpus")


@corpora.register
class TextCorpus(CorpusConfig):
    """Two text files, line by line in parallel."""

    kind: Literal["text"] = "text"
    src: Path
    """Source file, one text a line."""
    tgt: Path
    """Target file; its line n belongs to line n of the source."""

    def files(self) -> dict[str, Path]:
        return {"src": self.src, "tgt": self.tgt}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        src_path, tgt_path = root / self.src, root / self.tgt
        line = 0
        both = zip_longest(byte_lines(src_path), byte_lines(tgt_path))
        for line, (src_raw, tgt_raw) in enumerate(both, start=1):
            if src_raw is None or tgt_raw is None:
                short, long = (src_path, tgt_path) if src_raw is None else (tgt_path, src_path)
                raise _different_lengths(short, line - 1, long, line + sum(1 for _ in both))
            counts.read += 1
            src = decode(src_raw, src_path, line, invalid, counts)
            tgt = decode(tgt_raw, tgt_path, line, invalid, counts)
            if src is None or tgt is None:
                counts.invalid += 1
            else:
                yield RawPair(src, tgt, line)
        _require_some(line, src_path)


def _different_lengths(short: Path, short_lines: int, long: Path, long_lines: int) -> DataError:
    if short_lines == 0:
        return DataError(f"{short}: is empty, while {long} has {long_lines:,} lines")
    return DataError(
        f"{short}: has {short_lines:,} lines, but {long} has {long_lines:,}; line n of one must belong to line n of "
        "the other, so find the line that is missing"
    )


def _require_some(lines: int, path: Path) -> None:
    if lines == 0:
        raise DataError(f"{path}: is empty; give a file with at least one pair")


class OneFileCorpus(CorpusConfig):
    """Both sides in one file, a pair a line. An empty line is an empty pair: dropped later, and counted."""

    path: Path
    """The file; gzip and zstandard are recognised."""

    def files(self) -> dict[str, Path]:
        return {"path": self.path}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        path = root / self.path
        line = 0
        for line, raw in enumerate(byte_lines(path), start=1):
            counts.read += 1
            text = decode(raw, path, line, invalid, counts)
            sides = None if text is None else self.sides(text, path, line, invalid, counts)
            if sides is None:
                counts.invalid += 1
            else:
                yield RawPair(*sides, line)
        _require_some(line, path)

    def sides(self, text: str, path: Path, line: int, invalid: Policy, counts: ReadCounts) -> tuple[str, str] | None:
        """Source and target from a line; None when they hold invalid text that is to be skipped."""
        raise NotImplementedError


@corpora.register
class TsvCorpus(OneFileCorpus):
    """Columns with a tab between them; nothing is quoted or escaped, and there is no header line."""

    kind: Literal["tsv"] = "tsv"
    src_column: int = Field(default=0, ge=0)
    """Column of the source, counted from 0."""
    tgt_column: int = Field(default=1, ge=0)
    """Column of the target, counted from 0."""

    def sides(self, text: str, path: Path, line: int, invalid: Policy, counts: ReadCounts) -> tuple[str, str] | None:
        if not text:
            return "", ""
        columns = text.split("\t")
        for key, column in (("src_column", self.src_column), ("tgt_column", self.tgt_column)):
            if column >= len(columns):
                raise DataError(
                    f"{path}:{line}: has {len(columns)} column(s), so there is no column {column} ({key}, counted "
                    "from 0); separate the columns by a tab"
                )
        return columns[self.src_column], columns[self.tgt_column]


@corpora.register
class JsonLinesCorpus(OneFileCorpus):
    """A JSON object a line, as in {"src": "good morning", "tgt": "guten Morgen"}."""

    kind: Literal["jsonl"] = "jsonl"
    src: str = "src"
    """Key of the source."""
    tgt: str = "tgt"
    """Key of the target."""

    def sides(self, text: str, path: Path, line: int, invalid: Policy, counts: ReadCounts) -> tuple[str, str] | None:
        if not text.strip():
            return "", ""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{line}: is not JSON ({error}); write one JSON object a line") from error
        sides = []
        for key in (self.src, self.tgt):
            value = _string_at(record, key, path, line)
            # JSON can spell lone surrogates and NUL, which no UTF-8 file can hold: same policy for both.
            sides.append(decode(value.encode("utf-8", "surrogatepass"), path, line, invalid, counts))
        src, tgt = sides
        return None if src is None or tgt is None else (src, tgt)


def _string_at(record: Any, key: str, path: Path, line: int) -> str:
    if not isinstance(record, dict):
        raise DataError(f"{path}:{line}: is not a JSON object; write one object with the key {key!r} a line")
    if key not in record:
        there = ", ".join(repr(name) for name in record) or "none"
        raise DataError(f"{path}:{line}: has no key {key!r}; its keys are {there}")
    value = record[key]
    if not isinstance(value, str):
        raise DataError(f"{path}:{line}: the value of {key!r} is not a string; write it in quotes")
    return value


@corpora.register
class ParquetCorpus(CorpusConfig):
    """Two string columns of a Parquet table; needs the extra `qkv[parquet]`."""

    kind: Literal["parquet"] = "parquet"
    path: Path
    """The Parquet file."""
    src: str = "src"
    """Column of the source."""
    tgt: str = "tgt"
    """Column of the target."""

    def files(self) -> dict[str, Path]:
        return {"path": self.path}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        from qkv.data.parquet import parquet_rows

        path = root / self.path
        row = 0
        for row, (src_raw, tgt_raw) in enumerate(parquet_rows(path, self.src, self.tgt), start=1):
            counts.read += 1
            src = decode(src_raw, path, row, invalid, counts)
            tgt = decode(tgt_raw, path, row, invalid, counts)
            if src is None or tgt is None:
                counts.invalid += 1
            else:
                yield RawPair(src, tgt, row)
        _require_some(row, path)


AnyCorpus = Annotated[CorpusConfig, corpora]
