"""Missing values: how many there are, and lines that are drawn across them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qkv.data.series.pieces import Values, pieces

Places = npt.NDArray[np.intp]


def find_gaps(values: Values) -> tuple[int, int]:
    """How many values are missing, and where the first of them is."""
    count, first = 0, -1
    for gaps in _places(values, missing=True):
        first = int(gaps[0]) if not count else first
        count += len(gaps)
    return count, first


def fill_gaps(values: Values) -> None:
    """Interpolates linearly between the neighbours of each gap, in place; at either end the nearest value is repeated.

    There must be a value.
    """
    last: int | None = None
    for known in _places(values, missing=False):
        ends = known if last is None else np.concatenate([[last], known])
        stop = int(known[-1])
        _interpolate(values, 0 if last is None else last, stop, ends)
        last = stop
    assert last is not None
    _interpolate(values, last, len(values), np.array([last]))


def _places(values: Values, missing: bool) -> Iterator[Places]:
    """Where values are missing, or where they are not, for each piece that has some."""
    for piece in pieces(len(values)):
        found = np.flatnonzero(np.isfinite(values[piece]) != missing)
        if len(found):
            yield piece.start + found


def _interpolate(values: Values, start: int, stop: int, known: Places) -> None:
    heights = values[known]
    for piece in pieces(stop, start):
        values[piece] = np.interp(np.arange(piece.start, piece.stop), known, heights)
