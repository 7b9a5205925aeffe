"""Errors of forecasts: mean squared, mean absolute, and mean absolute scaled error."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qkv.data.series.pieces import Values, pieces
from qkv.data.series.sources import NamedSeries


class ForecastErrors(NamedTuple):
    """Means over all values of all windows."""

    mse: float
    """(ŷ - y)², in the square of the series' unit."""
    mae: float
    """|ŷ - y|, in the series' unit."""
    mase: float
    """|ŷ - y| divided by the mean error of the seasonal naive forecast of the past (Hyndman and Koehler 2006);
    the mean leaves out series whose past is constant, and is NaN if there are no others."""


@dataclass
class ErrorSums:
    """Errors summed over windows that come a few at a time."""

    squared: float = 0.0
    absolute: float = 0.0
    scaled: float = 0.0
    values: int = 0
    scaled_values: int = 0

    def add(self, forecasts: Values, future: Values, naive_errors: Values) -> None:
        """Of forecasts [N, horizon]; `naive_errors` [N] belong to the series of each window (see `naive_error`)."""
        wrong = np.abs(forecasts - future)
        known = np.isfinite(naive_errors)
        self.squared += float(np.square(wrong).sum())
        self.absolute += float(wrong.sum())
        self.scaled += float((wrong[known] / naive_errors[known, None]).sum())
        self.values += wrong.size
        self.scaled_values += wrong[known].size

    def means(self) -> ForecastErrors:
        """The errors of all that was added."""
        mase = self.scaled / self.scaled_values if self.scaled_values else np.nan
        return ForecastErrors(self.squared / self.values, self.absolute / self.values, mase)


def naive_error(series: NamedSeries, period: int) -> float:
    """mean |x_t - x_{t-m}| over the values before the part, or over all where too few come before; NaN if that is 0."""
    values = series.values[: series.start] if series.start > period else series.values
    pairs = len(values) - period
    if pairs <= 0:
        return np.nan
    earlier, later = values[:pairs], values[period:]
    total = sum(float(np.abs(later[piece] - earlier[piece]).sum()) for piece in pieces(pairs))
    return total / pairs or np.nan
