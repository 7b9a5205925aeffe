"""The rows of the input files, divided into shards: so many rows of one file each, in the order of the files."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.core.errors import DataError, UsageError
from qkv.core.progress import Counting
from qkv.data.lines import BLOCK, decompressed, is_packed
from qkv.translate.cluster.storage import Location

TEXT, JSON_LINES, PARQUET = "text", "jsonl", "parquet"
ENDINGS = {".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".parquet": PARQUET}
READERS = 16
"""Files that are surveyed at once: a distant one is mostly waited for."""
PER_GROUP = 32
"""A row group of Parquet can only be read from its start, so it is divided into so many shards at most."""


@dataclass(frozen=True)
class Shard:
    """Some rows of one file, which become one part of the output."""

    number: int
    """Over all files, from 0."""
    file: Location
    first: int
    """Rows of the file before it."""
    rows: int
    offset: int | None
    """The byte where it begins; None: it has to be looked for from the start of the file."""


@dataclass(frozen=True)
class _Surveyed:
    sha256: str
    rows: int
    per_shard: int
    offsets: list[int] | None
    """Where each shard begins."""


@dataclass(frozen=True)
class Inputs:
    """All input files."""

    form: str
    sha256: str
    """Of the contents of all files, one after another."""
    shards: list[Shard]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)


def common_form(files: Sequence[Location]) -> str:
    """What the files are, by the endings of their names; raises UsageError if they differ."""
    forms: dict[str, str] = {}
    for file in files:
        stem, ending = os.path.splitext(file.path)
        if ending in (".gz", ".zst"):
            ending = os.path.splitext(stem)[1]
        forms.setdefault(ENDINGS.get(ending, TEXT), file.name)
    if len(forms) > 1:
        (one, first), (other, second), *_ = forms.items()
        raise UsageError(f"{second} is {other}, but {first} is {one}; give files of one form for one job")
    return next(iter(forms))


def survey_inputs(files: Sequence[Location], per_shard: int, counting: Counting) -> Inputs:
    """Read every file once and divide its rows into shards of `per_shard`."""
    form = common_form(files)
    survey = _survey_parquet if form == PARQUET else _survey_lines
    found = []
    with ThreadPoolExecutor(READERS) as threads:
        for one in threads.map(lambda file: survey(file, per_shard), files):
            found.append(one)
            counting(len(found), len(files))
    digest = hashlib.sha256("\n".join(one.sha256 for one in found).encode())
    shards = [shard for file, one in zip(files, found, strict=True) for shard in _shards(file, one)]
    if not shards:
        raise DataError(f"{files[0].name}: is empty; give a file with at least one row")
    numbered = [Shard(number, *rest) for number, rest in enumerate(shards)]
    return Inputs(form, digest.hexdigest(), numbered)


def _shards(file: Location, found: _Surveyed) -> Iterator[tuple[Location, int, int, int | None]]:
    for number, first in enumerate(range(0, found.rows, found.per_shard)):
        rows = min(found.per_shard, found.rows - first)
        yield file, first, rows, None if found.offsets is None else found.offsets[number]


def _survey_lines(file: Location, per_shard: int) -> _Surveyed:
    """The lines of a file and where every `per_shard`-th begins. A compressed file has one shard only."""
    digest = hashlib.sha256()
    lines, size, last, offsets = 0, 0, b"", [0]
    with file.opened() as opened:
        packed = is_packed(opened.read(8))
        opened.seek(0)
        for block in decompressed(opened, file.name):
            digest.update(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            # The line ends after which a shard begins.
            offsets += (size + 1 + ends[-(lines + 1) % per_shard :: per_shard]).tolist()
            lines += len(ends)
            size += len(block)
            last = block[-1:] or last
    lines += bool(last) and last != b"\n"
    return _Surveyed(digest.hexdigest(), lines, max(lines, 1) if packed else per_shard, None if packed else offsets)


def _survey_parquet(file: Location, per_shard: int) -> _Surveyed:
    digest = hashlib.sha256()
    with file.opened() as opened:
        for block in iter(lambda: opened.read(BLOCK), b""):
            digest.update(block)
        opened.seek(0)
        metadata = parquet_file(opened, file).metadata
    largest = max((metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)), default=0)
    coarse = -(-largest // PER_GROUP)
    return _Surveyed(digest.hexdigest(), metadata.num_rows, -(-max(coarse, 1) // per_shard) * per_shard, None)


def parquet_file(opened: Any, file: Location) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(opened)
    except ArrowException as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{file.name}: is not a whole Parquet file ({reason}); write it again") from error
