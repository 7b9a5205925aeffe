"""Where series come from: what every kind of source does, and the registry of the kinds.

train: {kind: csv, path: co2.csv, columns: [co2], stop: 0.7}
dev: {kind: csv, path: co2.csv, columns: [co2], start: 0.7, stop: 0.85}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from qkv.config.base import Config, Kinds
from qkv.core.errors import DataError, UsageError
from qkv.data.build import CountProgress
from qkv.data.series.gaps import fill_gaps, find_gaps
from qkv.data.series.pieces import Values

Place = Annotated[float, Field(ge=0, le=1)]


class NamedSeries(NamedTuple):
    """One column of a source."""

    name: str
    values: Values
    """All of it, from the first row to the end of the part."""
    start: int
    """Where the part begins: values from here on are forecast, those before are only read."""


class SeriesSource(Config):
    """A table of numbers: a row for each point in time, a column for each series."""

    kind: str
    path: Path
    """The file."""
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Names of the columns to use; null: all but `time`."""
    start: Place = 0.0
    """Where the values to be forecast begin, as a fraction of the rows; windows may reach back before it."""
    stop: Place = 1.0
    """Where they end."""
    missing: Literal["error", "interpolate"] = "error"
    """What to do where a value is missing: stop, or draw a line between its neighbours."""

    @model_validator(mode="after")
    def _in_order(self) -> "SeriesSource":
        if self.start >= self.stop:
            raise ValueError(f"start ({self.start:g}) must be below stop ({self.stop:g})")
        return self

    def file(self, root: Path) -> Path:
        """The file; raises DataError if there is none."""
        path = root / self.path
        if not path.is_file():
            raise DataError(f"{path}: no such file; correct the path, or data.root")
        return path

    def table(self, path: Path, scratch: Path, progress: CountProgress | None) -> "SeriesTable":
        """Everything in the file, with the values in the empty folder `scratch`."""
        raise NotImplementedError

    def read(
        self, root: Path, scratch: Path, holdout: int = 0, progress: CountProgress | None = None
    ) -> list[NamedSeries]:
        """The columns, each up to the end of the part but for its last `holdout` values, which fill no gap either.

        The values are mapped from files in the empty folder `scratch`, so that a table may be larger than memory.
        """
        path = self.file(root)
        table = self.table(path, scratch, progress)
        rows = table.values.shape[1]
        start, stop = round(self.start * rows), round(self.stop * rows)
        rest = stop - holdout
        if holdout and rest <= start:
            raise UsageError(
                f"data.holdout is {holdout:,}, but the series {table.names[0]!r} has {stop:,} values; leave some to "
                "train on"
            )
        columns = zip(table.names, table.values, strict=True)
        return [NamedSeries(name, self._whole(values[:rest], name, table, path), start) for name, values in columns]

    def _whole(self, values: Values, name: str, table: "SeriesTable", path: Path) -> Values:
        """The values without gaps."""
        gaps, first = find_gaps(values)
        if not gaps:
            return values
        if self.missing == "error":
            raise DataError(
                f"{path}:{int(table.lines[first])}: column {name!r} has no value here ({gaps:,} are missing in all); "
                "fill them in, or set missing: interpolate"
            )
        if gaps == len(values):
            raise DataError(f"{path}: column {name!r} has no values at all; leave it out of columns")
        fill_gaps(values)
        return values


class SeriesTable(NamedTuple):
    """The columns of a file; a missing value is NaN."""

    names: Sequence[str]
    values: Values
    """[columns, rows], mapped from disk; they may be changed."""
    lines: Sequence[int] | Values
    """Where each row stands in its file, for messages."""


series_sources = Kinds[SeriesSource]("series source")


def chosen_columns(there: Sequence[str], wanted: Sequence[str] | None, time: str | None, path: Path) -> list[int]:
    """The numbers of the wanted columns: by default all but `time`."""
    for name in [*(wanted or ()), *([time] if time else [])]:
        if list(there).count(name) != 1:
            shown = ", ".join(map(repr, there)) or "none"
            raise DataError(f"{path}:1: has no single column {name!r}; the columns are {shown}")
    names = wanted or [name for name in there if name != time]
    if not names:
        raise DataError(f"{path}:1: has no column of values beside {time!r}; add one")
    return [list(there).index(name) for name in names]
