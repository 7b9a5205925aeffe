"""A forecasting model beside the forecasts that need no network, on all windows of a part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qkv.data.batching import in_chunks
from qkv.data.series.batch import SeriesBatch, SeriesStream
from qkv.data.series.store import SeriesStore
from qkv.evaluation.forecasting.baselines import Forecast, fit_linear, repeated_season
from qkv.evaluation.forecasting.errors import ForecastErrors, Values, forecast_errors, naive_error
from qkv.evaluation.report.tables import Table
from qkv.models.base import Model

AT_ONCE = 256
Counting = Callable[[int, int | None], None]


@dataclass(frozen=True)
class ForecastEvaluation:
    """The errors of the model, and of each other forecast by its name."""

    windows: int
    horizon: int
    period: int
    errors: dict[str, ForecastErrors]
    constant: int = 0
    """Windows of series whose past is constant, which MASE leaves out."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; MASE is null where the past of every series is constant."""
        rows = {
            name: {key: None if np.isnan(value) else value for key, value in errors._asdict().items()}
            for name, errors in self.errors.items()
        }
        counts = {"windows": self.windows, "constant": self.constant, "horizon": self.horizon, "period": self.period}
        return {**counts, "errors": rows}

    def table(self, name: str) -> Table:
        """For people; `name` is that of the data."""
        title = f"{self.windows:,} windows, {self.horizon} values ahead"
        title += f"; MASE without {self.constant:,} windows of a constant past" if self.constant else ""
        rows = [[who, f"{e.mse:.4g}", f"{e.mae:.4g}", f"{e.mase:.3f}"] for who, e in self.errors.items()]
        return Table(f"{name}: {title}" if name else title, ["forecast", "MSE", "MAE", "MASE"], rows)


def evaluate_forecasts(
    model: Model,
    store: SeriesStore,
    sizes: tuple[int, int],
    period: int,
    counting: Counting,
    learned_from: tuple[SeriesStore, SeriesStore | None] | None = None,
) -> ForecastEvaluation:
    """`sizes` are context and horizon; `learned_from` are train and dev, which linear regression is fitted to."""
    context, horizon = sizes
    windows = _all_windows(store, sizes)
    past, future = (part[..., 0].double().numpy() for part in (windows.past, windows.future))
    others: dict[str, Forecast] = {"last value": repeated_season(1, horizon)}
    if 1 < period <= context:
        others[f"last season ({period})"] = repeated_season(period, horizon)
    if learned_from is not None:
        train, dev = (None if own is None else _all_windows(own, sizes) for own in learned_from)
        assert train is not None
        others["linear regression"] = fit_linear(train, dev)
    naive = np.array([naive_error(series, period) for series in store.series])[_series_of(store, sizes)]
    found = {model.kind: forecast_errors(forecasts(model, windows, counting), future, naive)}
    found |= {name: forecast_errors(forecast(past), future, naive) for name, forecast in others.items()}
    return ForecastEvaluation(len(windows), horizon, period, found, int(np.isnan(naive).sum()))


@torch.no_grad()
def forecasts(model: Model, windows: SeriesBatch, counting: Counting = lambda done, total: None) -> Values:
    """[N, horizon], what the model says of each window."""
    found = []
    for rows in in_chunks(range(len(windows)), AT_ONCE):
        part = slice(rows[0], rows[-1] + 1)
        batch = SeriesBatch(windows.past[part], windows.future[part], windows.scale[part], windows.examples[part])
        found.append(model(batch).states[..., 0].double().numpy())
        counting(rows[-1] + 1, len(windows))
    return np.concatenate(found)


def _stream(store: SeriesStore, sizes: tuple[int, int]) -> SeriesStream:
    return SeriesStream(store, *sizes, windows_per_batch=AT_ONCE, seed=0)


def _all_windows(store: SeriesStore, sizes: tuple[int, int]) -> SeriesBatch:
    stream = _stream(store, sizes)
    return stream.windows_of(range(len(stream.windows.places)))


def _series_of(store: SeriesStore, sizes: tuple[int, int]) -> Any:
    """The number of the series of each window."""
    return _stream(store, sizes).windows.series
