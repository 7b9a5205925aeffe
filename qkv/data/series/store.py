"""Prepared series on disk, one after the other in one array; windows are cut when a batch is made."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import with_config
from typing_extensions import TypedDict

from qkv.core.reading import STRICT, Count
from qkv.data.arrays.stored import StoredArrays, open_arrays, write_arrays, write_rows
from qkv.data.build import CountProgress
from qkv.data.series.pieces import Values, pieces
from qkv.data.series.sources import NamedSeries, SeriesSource


@with_config(STRICT)
class SeriesRange(TypedDict):
    """Where a series stands in the array of its store."""

    name: str
    first: Count
    """Its first value."""
    start: Count
    """Its first value that is to be forecast, counted from its first."""
    length: Count


@with_config(STRICT)
class AboutSeries(TypedDict):
    """What is known about the series of a store."""

    series: list[SeriesRange]


@dataclass(frozen=True)
class SeriesReport:
    """What was read."""

    series: int
    values: int

    def lines(self) -> list[str]:
        return [f"{self.values:,} values to forecast, in {self.series:,} series"]


class SeriesStore:
    """Series, open for reading."""

    def __init__(self, stored: StoredArrays) -> None:
        about = stored.about(AboutSeries)
        self.folder, self.fingerprint = stored.folder, stored.fingerprint
        self.ranges: list[SeriesRange] = about["series"]
        self.values: Values = stored.arrays["values"]

    @classmethod
    def open(cls, folder: Path) -> "SeriesStore":
        """Open a store that `build_series_store` wrote."""
        return cls(open_arrays(folder))

    def __len__(self) -> int:
        """Values that are forecast."""
        return sum(own["length"] - own["start"] for own in self.ranges)

    @cached_property
    def series(self) -> list[NamedSeries]:
        """The series, mapped from disk."""
        return [
            NamedSeries(own["name"], self.values[own["first"] : own["first"] + own["length"]], own["start"])
            for own in self.ranges
        ]

    @property
    def report(self) -> SeriesReport:
        return SeriesReport(len(self.ranges), len(self))

    @property
    def num_tokens(self) -> int:
        """Values."""
        return len(self.values)

    @property
    def num_tgt_tokens(self) -> int:
        """Values that are forecast."""
        return len(self)


@dataclass(frozen=True)
class SeriesPart:
    """One part of the data before it is prepared."""

    name: str
    sources: tuple[SeriesSource, ...]
    root: Path
    holdout: int | None = None
    """The last values of each series, which belong to dev."""

    def texts(self, side: str) -> Iterator[str]:
        """There are none."""
        return iter(())

    def series(self, scratch: Path, progress: CountProgress | None = None) -> list[NamedSeries]:
        """All series of the part, with their values in the empty folder `scratch`."""
        holdout, found = self.holdout or 0, []
        for number, source in enumerate(self.sources):
            folder = scratch / str(number)
            folder.mkdir()
            found += source.read(self.root, folder, holdout if self.name == "train" else 0, progress)
        if self.name == "train" or not holdout:
            return found
        return [series._replace(start=len(series.values) - holdout) for series in found]


def build_series_store(folder: Path, part: SeriesPart, inputs: str, progress: CountProgress | None = None) -> None:
    """Stream the series of a part into a new store."""

    def fill(temporary: Path) -> AboutSeries:
        scratch = temporary / "scratch"
        scratch.mkdir()
        found = part.series(scratch, progress)
        values = (series.values[piece] for series in found for piece in pieces(len(series.values)))
        write_rows(temporary / "values.npy", (), np.float64, values)
        shutil.rmtree(scratch)
        firsts = np.cumsum([0, *(len(series.values) for series in found)]).tolist()
        return {
            "series": [
                {"name": series.name, "first": first, "start": series.start, "length": len(series.values)}
                for series, first in zip(found, firsts, strict=False)
            ]
        }

    write_arrays(folder, inputs, fill)
