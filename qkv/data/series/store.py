"""Prepared series on disk, one after the other in one array; windows are cut when a batch is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import with_config
from typing_extensions import TypedDict

from qkv.core.errors import DataError
from qkv.core.reading import STRICT, Count
from qkv.data.arrays.stored import StoredArrays, open_arrays, write_arrays
from qkv.data.series.sources import NamedSeries, Values


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


def build_series_store(folder: Path, found: Sequence[NamedSeries], inputs: str) -> None:
    """Put the series into a new store."""

    def fill(temporary: Path) -> AboutSeries:
        np.save(temporary / "values.npy", np.concatenate([series.values for series in found]))
        firsts = np.cumsum([0, *(len(series.values) for series in found)]).tolist()
        return {
            "series": [
                {"name": series.name, "first": first, "start": series.start, "length": len(series.values)}
                for series, first in zip(found, firsts, strict=False)
            ]
        }

    write_arrays(folder, inputs, fill)


@dataclass(frozen=True)
class Windows:
    """Every place of a store where `context` values are followed by `horizon` values of the part."""

    series: npt.NDArray[np.int64]
    """The series of each window."""
    places: npt.NDArray[np.int64]
    """The first value to be forecast, counted from the beginning of its series."""


def find_windows(store: SeriesStore, context: int, horizon: int, every: int = 1) -> Windows:
    """All windows of a store, `every` values apart; raises DataError if there is none."""
    numbers, places = [], []
    for number, series in enumerate(store.series):
        found = np.arange(max(series.start, context), len(series.values) - horizon + 1, every, dtype=np.int64)
        places.append(found)
        numbers.append(np.full(len(found), number, dtype=np.int64))
    windows = Windows(np.concatenate(numbers), np.concatenate(places))
    if not len(windows.places):
        longest = max(len(series.values) for series in store.series)
        raise DataError(
            f"{store.folder.name}: no series has {context} values and {horizon} more to forecast (the longest has "
            f"{longest:,}); lower model.context or model.horizon, or give longer series"
        )
    return windows
