"""`kind: csv`: a header with the names of the columns, then a row for each point in time."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.lib.format import open_memmap

from qkv.config.words import shorten
from qkv.core.errors import DataError
from qkv.data.arrays.stored import write_rows
from qkv.data.batching import in_chunks
from qkv.data.build import CountProgress
from qkv.data.lines import MAX_LINE, ReadCounts, byte_lines, decode
from qkv.data.series.pieces import PIECE, Values, pieces
from qkv.data.series.sources import SeriesSource, SeriesTable, chosen_columns, series_sources

TIMES = frozenset({"time", "date"})
EMPTY = frozenset({"", "na", "nan", "null", "none"})
"""How files write that a value is missing."""


@series_sources.register
class CsvSeries(SeriesSource):
    """Comma-separated values, plain or compressed, in the order of time."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "series.csv"}

    kind: Literal["csv"] = "csv"
    time: str | None = None
    """The column that says when a row was measured; it is not read, since the order of the rows says it. Null: a column
    called time or date, if there is one."""

    def table(self, path: Path, scratch: Path, progress: CountProgress | None) -> SeriesTable:
        rows = _rows(path)
        _, header = next(rows, (1, [""]))
        there = [name.strip() for name in header]
        if not any(there):
            raise DataError(f"{path}: is empty; give a file with a header and a row for each point in time")
        time = self.time or next((name for name in there if name.lower() in TIMES), None)
        numbers = chosen_columns(there, self.columns, time, path)
        names = [there[number] for number in numbers]
        # A row's line goes with its values, as a column of its own.
        cells = ([float(line), *_numbers(fields, numbers, names, path, line)] for line, fields in rows)
        columns = _on_disk(cells, 1 + len(names), scratch, progress)
        if not columns.size:
            raise DataError(f"{path}: has no row below its header; give a row for each point in time")
        return SeriesTable(names, columns[1:], columns[0])


def _on_disk(rows: Iterator[list[float]], width: int, scratch: Path, progress: CountProgress | None) -> Values:
    """The columns of rows of this width, one after the other in a file; a few rows at a time are in memory."""
    at_once = max(1, PIECE // width)

    def chunks() -> Iterator[Values]:
        done = 0
        for chunk in in_chunks(rows, at_once):
            yield np.array(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, None)

    write_rows(scratch / "rows.npy", (width,), np.float64, chunks())
    found = np.load(scratch / "rows.npy", mmap_mode="r")
    columns = open_memmap(scratch / "columns.npy", mode="w+", dtype=np.float64, shape=(width, len(found)))
    for piece in pieces(len(found), size=at_once):
        columns[:, piece] = found[piece].T
    return columns


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold something, each with the line on which it begins."""
    # A setting of the process, which the reader of pairs sets to the same.
    csv.field_size_limit(MAX_LINE)
    reader, line = csv.reader(_lines(path)), 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{line}: {_complaint(error)}") from error


def _complaint(error: csv.Error) -> str:
    if "field limit" in str(error):
        return (
            f"has a field of more than {MAX_LINE:,} characters that begins in this row; is its closing quote missing?"
        )
    return "has a carriage return inside a line; save the file with lines that end in \\n or \\r\\n"


def _lines(path: Path) -> Iterator[str]:
    for line, raw in enumerate(byte_lines(path), start=1):
        text = decode(raw, path, line, "error", ReadCounts(), "save the file as UTF-8")
        yield f"{text}\n"


def _numbers(fields: list[str], numbers: list[int], names: list[str], path: Path, line: int) -> list[float]:
    found = []
    for number, name in zip(numbers, names, strict=True):
        if number >= len(fields):
            raise DataError(f"{path}:{line}: has {len(fields)} columns, so {name!r} is missing; complete the line")
        text = fields[number].strip()
        try:
            found.append(float("nan") if text.lower() in EMPTY else float(text))
        except ValueError:
            raise DataError(
                f"{path}:{line}: '{shorten(text)}' in column {name!r} is not a number; correct it, or choose others by "
                "columns"
            ) from None
    return found
