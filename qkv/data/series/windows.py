"""The windows of a store, by their numbers: nothing is kept for a single one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qkv.core.errors import DataError
from qkv.data.series.store import SeriesStore

Numbers = npt.NDArray[np.int64]


class Windows:
    """Every place of a store where `context` values are followed by `horizon` values of the part."""

    def __init__(self, places: Sequence[range]) -> None:
        self.places = places
        """For each series the first values to be forecast, counted from its beginning."""
        self._firsts = np.array([own.start for own in places])
        self._stops = np.cumsum([len(own) for own in places])

    def __len__(self) -> int:
        return int(self._stops[-1])

    def at(self, windows: Sequence[int]) -> tuple[Numbers, Numbers]:
        """The series of each of these windows, and the first value to be forecast."""
        numbers = np.asarray(windows, dtype=np.int64)
        series = np.searchsorted(self._stops, numbers, side="right")
        before = np.concatenate([[0], self._stops])[series]
        return series, self._firsts[series] + numbers - before


def find_windows(store: SeriesStore, context: int, horizon: int) -> Windows:
    """All windows of a store; raises DataError if there is none."""
    windows = Windows(
        [range(max(own.start, context), len(own.values) - horizon + 1) for own in store.series],
    )
    if not len(windows):
        longest = max(len(series.values) for series in store.series)
        raise DataError(
            f"{store.folder.name}: no series has {context} values and {horizon} more to forecast (the longest has "
            f"{longest:,}); lower model.context or model.horizon, or give longer series"
        )
    return windows
