"""Errors of forecasts: mean squared, mean absolute, and mean absolute scaled error."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.series.sources import NamedSeries

Values = npt.NDArray[np.float64]


class ForecastErrors(NamedTuple):
    """Means over all values of all windows."""

    mse: float
    """(ŷ - y)², in the square of the series' unit."""
    mae: float
    """|ŷ - y|, in the series' unit."""
    mase: float
    """|ŷ - y| divided by the mean error of the seasonal naive forecast of the past (Hyndman and Koehler 2006);
    the mean leaves out series whose past is constant, and is NaN if there are no others."""


def forecast_errors(forecasts: Values, future: Values, naive_errors: Values) -> ForecastErrors:
    """Of forecasts [N, horizon]; `naive_errors` [N] belong to the series of each window (see `naive_error`)."""
    wrong = np.abs(forecasts - future)
    scaled = np.isfinite(naive_errors)
    mase = float((wrong[scaled] / naive_errors[scaled, None]).mean()) if scaled.any() else np.nan
    return ForecastErrors(float(np.square(wrong).mean()), float(wrong.mean()), mase)


def naive_error(series: NamedSeries, period: int) -> float:
    """mean |x_t - x_{t-m}| over the values before the part, or over all where too few come before; NaN if that is 0."""
    before = np.asarray(series.values[: series.start])
    values = before if len(before) > period else np.asarray(series.values)
    found = float(np.abs(values[period:] - values[:-period]).mean()) if len(values) > period else 0.0
    return found or np.nan
