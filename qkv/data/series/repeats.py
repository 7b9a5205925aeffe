"""Windows that say nothing new: those that occur more than once, and those whose values are all the same."""

from collections.abc import Iterator

import numpy as np

from qkv.data.arrays.repeats import Hashes, row_hashes
from qkv.data.build import CountProgress
from qkv.data.series.pieces import Values, pieces
from qkv.data.series.store import SeriesStore
from qkv.data.series.windows import Windows, find_windows


def window_hashes(
    store: SeriesStore, context: int, horizon: int, progress: CountProgress = lambda done, total: None
) -> Hashes:
    """The hash of each window with what follows it."""
    windows = find_windows(store, context, horizon)
    return row_hashes(_rows(store, windows, context, horizon), len(windows), progress)


def _rows(store: SeriesStore, windows: Windows, context: int, horizon: int) -> Iterator[Values]:
    for series, places in zip(store.series, windows.places, strict=True):
        for place in places:
            yield series.values[place - context : place + horizon]


def count_constant(store: SeriesStore, context: int, horizon: int) -> int:
    """How many windows hold one value again and again, so that nothing can be told from them."""
    windows, found = find_windows(store, context, horizon), 0
    for series, places in zip(store.series, windows.places, strict=True):
        for piece in pieces(places.stop, places.start):
            values = series.values[piece.start - context : piece.stop - 1]
            changes = np.concatenate([[0], np.cumsum(np.diff(values) != 0)])
            found += int((changes[context - 1 :] == changes[: 1 - context]).sum())
    return found
