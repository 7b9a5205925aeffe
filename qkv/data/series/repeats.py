"""Windows that say nothing new: those that occur more than once, and those whose values are all the same."""

from collections.abc import Iterator

import numpy as np

from qkv.data.arrays.repeats import Hashes, row_hashes
from qkv.data.build import CountProgress
from qkv.data.series.sources import Values
from qkv.data.series.store import SeriesStore, Windows, find_windows


def window_hashes(
    store: SeriesStore, context: int, horizon: int, progress: CountProgress = lambda done, total: None
) -> Hashes:
    """The hash of each window with what follows it."""
    windows = find_windows(store, context, horizon)
    return row_hashes(_rows(store, windows, context, horizon), len(windows.places), progress)


def _rows(store: SeriesStore, windows: Windows, context: int, horizon: int) -> Iterator[Values]:
    for number, place in zip(windows.series.tolist(), windows.places.tolist(), strict=True):
        yield store.series[number].values[place - context : place + horizon]


def count_constant(store: SeriesStore, context: int, horizon: int) -> int:
    """How many windows hold one value again and again, so that nothing can be told from them."""
    windows, found = find_windows(store, context, horizon), 0
    for number, series in enumerate(store.series):
        changes = np.concatenate([[0], np.cumsum(np.diff(series.values) != 0)])
        places = windows.places[windows.series == number]
        found += int((changes[places - 1] == changes[places - context]).sum())
    return found
