"""All windows of a part, a few at a time: the same errors as of all of them at once, in memory that does not grow."""

from pathlib import Path

import numpy as np
import pytest
import torch

from qkv.data.series.npz import SeriesArchive
from qkv.data.series.store import SeriesPart, SeriesStore, build_series_store
from qkv.evaluation.forecasting.errors import naive_error
from qkv.evaluation.forecasting.evaluate import AT_ONCE, AllWindows, evaluate_forecasts, forecasts
from qkv.models.forecasting.config import ForecastingConfig
from qkv.models.forecasting.model import ForecastingModel
from qkv.text import TextConfig
from tests.support.memory import peak_of

SIZES = (8, 3)
MODEL = {"patch": 4, "stride": 4, "d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 1}


@pytest.fixture
def model() -> ForecastingModel:
    torch.manual_seed(0)
    config = ForecastingConfig(context=SIZES[0], horizon=SIZES[1], **MODEL)
    return config.build(TextConfig().train(lambda: [], lambda: [])).eval()


def waves(folder: Path, length: int) -> SeriesStore:
    random = np.random.default_rng(1)
    level, current = np.sin(np.arange(length) / 5), 100 * np.cos(np.arange(length) / 3)
    noise = random.normal(size=(2, length))
    np.savez(folder / "waves.npz", level=level + 0.1 * noise[0], current=current + noise[1], still=np.ones(length))
    part = SeriesPart("test", (SeriesArchive(path=Path("waves.npz")),), folder)
    build_series_store(folder / str(length), part, "")
    return SeriesStore.open(folder / str(length))


def test_the_errors_are_those_of_all_windows_at_once(model: ForecastingModel, tmp_path: Path) -> None:
    store, done = waves(tmp_path, 300), []
    found = evaluate_forecasts(model, store, SIZES, 5, lambda now, total: done.append((now, total)), (store, None))
    windows = AllWindows(store, SIZES)
    assert len(windows) == found.windows == 3 * (300 - 8 - 3 + 1) > 2 * AT_ONCE
    assert done[-1] == (found.windows, found.windows)
    whole = windows.stream.windows_of(range(len(windows)))
    past, future = whole.past[..., 0].double().numpy(), whole.future[..., 0].double().numpy()
    naive = np.repeat([naive_error(series, 5) for series in store.series], len(windows) // 3)
    known = naive > 0
    assert found.constant == np.isnan(naive).sum() == len(windows) // 3
    guesses = {"forecasting": forecasts(model, whole), "last value": past[:, -1:], "last season (5)": past[:, -5:-2]}
    assert set(found.errors) == {*guesses, "linear regression"}
    for name, guess in guesses.items():
        wrong = np.abs(guess - future)
        wanted = (np.square(wrong).mean(), wrong.mean(), (wrong[known] / naive[known, None]).mean())
        assert found.errors[name] == pytest.approx(wanted, rel=1e-5)
    assert found.errors["linear regression"].mse < found.errors["last value"].mse


def test_memory_does_not_grow_with_the_windows(model: ForecastingModel, tmp_path: Path) -> None:
    peaks = []
    for length in (400, 1_000):
        store = waves(tmp_path, length)

        def measure(own: SeriesStore = store) -> None:
            evaluate_forecasts(model, own, SIZES, 5, lambda now, total: None, (own, None))

        peaks.append(peak_of(measure))
    # The windows alone would be eleven numbers each.
    assert peaks[1] - peaks[0] < 3 * 600 * sum(SIZES) * 4
