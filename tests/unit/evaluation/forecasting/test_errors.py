"""Errors of forecasts against loops, and what simple forecasts say."""

import numpy as np
import pytest
import torch

from qkv.data.series.batch import SeriesBatch
from qkv.data.series.pieces import Values
from qkv.data.series.sources import NamedSeries
from qkv.evaluation.forecasting.baselines import fit_linear, repeated_season
from qkv.evaluation.forecasting.errors import ErrorSums, ForecastErrors, naive_error
from qkv.evaluation.forecasting.evaluate import ForecastEvaluation

RANDOM = np.random.default_rng(0)


def windows(values: Values, context: int, horizon: int) -> SeriesBatch:
    cut = np.lib.stride_tricks.sliding_window_view(values, context + horizon)
    both = torch.from_numpy(cut.copy())[..., None].float()
    scale = torch.full((len(both),), float(values.std()))
    return SeriesBatch(both[:, :context], both[:, context:], scale, list(range(len(both))))


def errors_of(forecasts: Values, future: Values, naive_errors: Values) -> ForecastErrors:
    sums = ErrorSums()
    sums.add(forecasts, future, naive_errors)
    return sums.means()


def test_errors_are_the_means_of_loops() -> None:
    forecasts, future, naive = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(5, 3)), RANDOM.uniform(1, 2, 5)
    sums = ErrorSums()
    sums.add(forecasts[:2], future[:2], naive[:2])
    sums.add(forecasts[2:], future[2:], naive[2:])
    found = sums.means()
    cells = [(window, step) for window in range(5) for step in range(3)]
    wrong = [abs(forecasts[cell] - future[cell]) for cell in cells]
    assert found.mse == pytest.approx(sum(error**2 for error in wrong) / 15)
    assert found.mae == pytest.approx(sum(wrong) / 15)
    assert found.mase == pytest.approx(
        sum(error / naive[row] for error, (row, _) in zip(wrong, cells, strict=True)) / 15
    )


def test_a_series_with_a_constant_past_is_left_out_of_mase_alone() -> None:
    forecasts, future = np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[2.0, 4.0], [4.0, 4.0]])
    found = errors_of(forecasts, future, np.array([3.0, np.nan]))
    assert (found.mse, found.mae, found.mase) == pytest.approx((7 / 4, 5 / 4, 1.5 / 3))
    assert np.isnan(errors_of(forecasts, future, np.array([np.nan, np.nan])).mase)
    shown = ForecastEvaluation(2, 2, 1, {"last value": found}, constant=1)
    assert "MASE without 1 windows of a constant past" in shown.table("").title
    assert shown.as_dict()["constant"] == 1


def test_the_naive_error_is_that_of_the_past() -> None:
    values = np.array([1.0, 5.0, 2.0, 7.0, 0.0, 0.0])
    assert naive_error(NamedSeries("a", values, start=4), 2) == pytest.approx((1 + 2) / 2)
    assert naive_error(NamedSeries("a", values, start=4), 1) == pytest.approx((4 + 3 + 5) / 3)
    assert naive_error(NamedSeries("a", values, start=0), 2) == pytest.approx((1 + 2 + 2 + 7) / 4)
    assert np.isnan(naive_error(NamedSeries("a", np.ones(6), start=4), 1))


def test_the_seasonal_forecast_of_a_season_is_right() -> None:
    batch = windows(np.tile([1.0, 4.0, 2.0], 10), context=6, horizon=5)
    past, future = batch.past[..., 0].double().numpy(), batch.future[..., 0].double().numpy()
    assert np.array_equal(repeated_season(3, 5)(past), future)
    assert np.array_equal(repeated_season(1, 5)(past), np.repeat(past[:, -1:], 5, axis=1))


def test_linear_regression_finds_a_linear_rule() -> None:
    """A sum of a line and two waves follows a linear recurrence, whatever its level and size."""
    time = np.arange(120)
    values = 40 + 0.3 * time + 5 * np.sin(time / 2) + 3 * np.cos(time / 5)
    train, dev = windows(values[:80], 12, 4), windows(values[68:], 12, 4)
    found = fit_linear([train], [dev])
    past, future = dev.past[..., 0].double().numpy(), dev.future[..., 0].double().numpy()
    assert np.abs(found(past) - future).max() < 0.05
    np.testing.assert_allclose(found(2 * past + 7), 2 * found(past) + 7)
