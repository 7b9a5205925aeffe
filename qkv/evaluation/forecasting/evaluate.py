"""A forecasting model beside the forecasts that need no network, on all windows of a part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from qkv.core.progress import Counting
from qkv.data.batching import in_chunks
from qkv.data.series.batch import SeriesBatch, SeriesStream
from qkv.data.series.pieces import Values
from qkv.data.series.store import SeriesStore
from qkv.evaluation.forecasting.baselines import Forecast, arrays_of, fit_linear, repeated_season
from qkv.evaluation.forecasting.errors import ErrorSums, ForecastErrors, naive_error
from qkv.evaluation.report.tables import Table
from qkv.models.base import Model

AT_ONCE = 256


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


class AllWindows:
    """The windows of a store in their order, a few at a time, as often as wanted."""

    def __init__(self, store: SeriesStore, sizes: tuple[int, int]) -> None:
        self.stream = SeriesStream(store, *sizes, windows_per_batch=AT_ONCE, seed=0)

    def __len__(self) -> int:
        return len(self.stream.windows)

    def __iter__(self) -> Iterator[SeriesBatch]:
        return (self.stream.windows_of(rows) for rows in in_chunks(range(len(self)), AT_ONCE))

    def series_of(self, batch: SeriesBatch) -> npt.NDArray[np.int64]:
        """The number of the series of each window."""
        return self.stream.windows.at(batch.examples)[0]


def evaluate_forecasts(
    model: Model,
    store: SeriesStore,
    sizes: tuple[int, int],
    period: int,
    counting: Counting,
    learned_from: tuple[SeriesStore, SeriesStore | None] | None = None,
) -> ForecastEvaluation:
    """`sizes` are context and horizon; `learned_from` are train and dev, which linear regression is fitted to."""
    simple = _simple_forecasts(sizes, period, learned_from)
    windows = AllWindows(store, sizes)
    naive_errors = np.array([naive_error(series, period) for series in store.series])
    sums = {name: ErrorSums() for name in (model.kind, *simple)}
    done = constant = 0
    for batch in windows:
        past, future, _ = arrays_of(batch)
        naive = naive_errors[windows.series_of(batch)]
        sums[model.kind].add(forecasts(model, batch), future, naive)
        for name, forecast in simple.items():
            sums[name].add(forecast(past), future, naive)
        constant += int(np.isnan(naive).sum())
        done += len(batch)
        counting(done, len(windows))
    errors = {name: own.means() for name, own in sums.items()}
    return ForecastEvaluation(len(windows), sizes[1], period, errors, constant)


@torch.no_grad()
def forecasts(model: Model, batch: SeriesBatch) -> Values:
    """[N, horizon], what the model says of each window."""
    found: Values = model(batch).states[..., 0].double().numpy()
    return found


def _simple_forecasts(
    sizes: tuple[int, int], period: int, learned_from: tuple[SeriesStore, SeriesStore | None] | None
) -> dict[str, Forecast]:
    """Forecasts that need no network, by name."""
    context, horizon = sizes
    found: dict[str, Forecast] = {"last value": repeated_season(1, horizon)}
    if 1 < period <= context:
        found[f"last season ({period})"] = repeated_season(period, horizon)
    if learned_from is not None:
        train, dev = learned_from
        found["linear regression"] = fit_linear(
            AllWindows(train, sizes), None if dev is None else AllWindows(dev, sizes)
        )
    return found
