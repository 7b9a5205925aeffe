"""`kind: csv`: a header with the names of the columns, then a row for each point in time."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qkv.core.errors import DataError
from qkv.data.lines import ReadCounts, byte_lines, decode
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

    def table(self, path: Path) -> SeriesTable:
        rows = csv.reader(_lines(path))
        there = [name.strip() for name in next(rows, [])]
        if not any(there):
            raise DataError(f"{path}: is empty; give a file with a header and a row for each point in time")
        time = self.time or next((name for name in there if name.lower() in TIMES), None)
        numbers = chosen_columns(there, self.columns, time, path)
        names = [there[number] for number in numbers]
        lines, values = [], []
        for fields in rows:
            if fields:
                lines.append(rows.line_num)
                values.append(_numbers(fields, numbers, names, path, rows.line_num))
        if not values:
            raise DataError(f"{path}: has no row below its header; give a row for each point in time")
        return SeriesTable(names, np.array(values), lines)


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
                f"{path}:{line}: {text!r} in column {name!r} is not a number; correct it, or choose others by columns"
            ) from None
    return found
