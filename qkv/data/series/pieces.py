"""Long series a piece at a time, so that what is computed of them needs little memory."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

PIECE = 1 << 16
"""Values of a piece."""


def pieces(stop: int, start: int = 0, size: int = PIECE) -> Iterator[slice]:
    """Slices of `size` values from `start` to `stop`, the last one shorter."""
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def standard_deviation(values: Values) -> float:
    """That of all values, over N."""
    mean = sum(float(values[piece].sum()) for piece in pieces(len(values))) / len(values)
    squares = sum(float(np.square(values[piece] - mean).sum()) for piece in pieces(len(values)))
    return math.sqrt(squares / len(values))
