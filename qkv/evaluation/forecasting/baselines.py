"""Forecasts that need no network: the last value, the last season, and linear regression."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import torch

from qkv.data.series.batch import SeriesBatch
from qkv.data.series.pieces import Values
from qkv.functional.patches.series import seasonal_naive

Forecast = Callable[[Values], Values]
"""Windows [N, context] -> forecasts [N, horizon]."""
STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
CENTRES: dict[str, Forecast] = {
    "last value": lambda past: past[:, -1:],
    "mean": lambda past: past.mean(axis=1, keepdims=True),
}


def repeated_season(period: int, horizon: int) -> Forecast:
    """The last `period` values again and again; of period 1, the last value."""
    return lambda past: seasonal_naive(torch.from_numpy(past), period, horizon).numpy()


def fit_linear(train: Iterable[SeriesBatch], dev: Iterable[SeriesBatch] | None) -> Forecast:
    """Ridge regression of the future on the window, both relative to the window's last value or mean.

    The windows weigh as in the loss, in units of each series' standard deviation. Which of the two is subtracted, and
    how strongly the weights are kept small, is chosen on `dev`, else on `train`; both are gone over more than once.
    """
    fitted = [each for centre in CENTRES.values() for each in _ridges(train, centre)]
    wrong = np.zeros(len(fitted))
    for batch in train if dev is None else dev:
        past, future, scale = arrays_of(batch)
        wrong += [float(np.square((found(past) - future) / scale).sum()) for found in fitted]
    return fitted[int(wrong.argmin())]


def arrays_of(batch: SeriesBatch) -> tuple[Values, Values, Values]:
    """Past [N, context], future [N, horizon] and scale [N, 1]."""
    past, future = (part[..., 0].double().numpy() for part in (batch.past, batch.future))
    return past, future, batch.scale.double().numpy()[:, None]


def _ridges(batches: Iterable[SeriesBatch], centre: Forecast) -> Iterator[Forecast]:
    """Ridge regressions, one for each strength."""
    squares, products = np.zeros(()), np.zeros(())
    for batch in batches:
        past, future, scale = arrays_of(batch)
        middle = centre(past)
        inputs, wanted = (past - middle) / scale, (future - middle) / scale
        squares, products = squares + inputs.T @ inputs, products + inputs.T @ wanted
    for strength in STRENGTHS:
        # They are float64 already, which the types of numpy do not say.
        weights = np.linalg.solve(squares + strength * np.eye(len(squares)), products).astype(np.float64, copy=False)
        yield partial(_regressed, weights, centre)


def _regressed(weights: Values, centre: Forecast, windows: Values) -> Values:
    return (windows - centre(windows)) @ weights + centre(windows)
