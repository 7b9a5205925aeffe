"""Patches of series and reversible normalisation against loops in float64; what carries over to a forecast."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.patches.series import (
    denormalize,
    normalize_window,
    num_series_patches,
    seasonal_naive,
    series_patches,
    window_scale,
)
from qkv.models.forecasting.forecaster import PatchForecaster


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def forecaster() -> PatchForecaster:
    torch.manual_seed(0)
    model = PatchForecaster(context=24, horizon=5, patch=8, stride=4, d_model=16, num_layers=2, num_heads=2)
    return model.double().eval()


@pytest.mark.parametrize(
    ("length", "size", "stride", "count"),
    [(336, 16, 8, 42), (512, 16, 8, 64), (10, 4, 3, 4), (5, 5, 5, 2), (9, 2, 1, 9)],
)
def test_the_number_of_patches(length: int, size: int, stride: int, count: int) -> None:
    assert num_series_patches(length, size, stride) == count
    assert series_patches(draw(2, 3, length), size, stride).shape == (2, 3, count, size)


@pytest.mark.parametrize(("length", "size", "stride"), [(10, 4, 3), (9, 2, 1), (12, 4, 4)])
def test_patches_begin_every_stride_and_the_last_value_is_repeated(length: int, size: int, stride: int) -> None:
    x = draw(2, length)
    patches = series_patches(x, size, stride)
    for number in range(patches.shape[1]):
        for place in range(size):
            value = x[:, min(number * stride + place, length - 1)]
            assert torch.equal(patches[:, number, place], value)


@pytest.mark.parametrize(("size", "stride"), [(11, 1), (4, 5), (0, 1), (4, 0)])
def test_patches_that_do_not_fit_are_refused(size: int, stride: int) -> None:
    with pytest.raises(ValueError, match="a window of 10 values has no patches"):
        series_patches(draw(2, 10), size, stride)


def test_windows_are_centred_and_scaled_and_back() -> None:
    x = 7 + 3 * draw(4, 2, 30)
    mean, scale = window_scale(x)
    for row in range(4):
        for channel in range(2):
            values = x[row, channel].tolist()
            average = sum(values) / 30
            deviation = math.sqrt(sum((value - average) ** 2 for value in values) / 30)
            assert mean[row, channel].item() == pytest.approx(average, rel=1e-12)
            assert scale[row, channel].item() == pytest.approx(deviation, rel=1e-12)
    normal = normalize_window(x, mean, scale)
    torch.testing.assert_close(denormalize(normal, mean, scale), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e8, 1e-30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_forecast_of_a_constant_window_is_the_constant(
    value: float, dtype: torch.dtype, forecaster: PatchForecaster
) -> None:
    x = torch.full((1, 24, 1), value, dtype=dtype)
    found = forecaster.to(dtype)(x)
    limits = torch.finfo(dtype)
    torch.testing.assert_close(found, x[:, :5], rtol=100 * limits.eps, atol=100 * limits.tiny)
    found.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in forecaster.parameters() if weight.grad is not None)


def test_adding_and_scaling_carry_over_to_the_forecast(forecaster: PatchForecaster) -> None:
    x = draw(3, 24, 2)
    found = forecaster(x)
    torch.testing.assert_close(forecaster(x + 100), found + 100, rtol=0, atol=1e-9)
    for factor in (1e-12, 0.5, 1e9):
        torch.testing.assert_close(forecaster(x * factor), found * factor, rtol=1e-9, atol=0)


def test_no_channel_reads_another(forecaster: PatchForecaster) -> None:
    x = draw(2, 24, 3).requires_grad_()
    found = forecaster(x)
    for channel in range(3):
        by = torch.autograd.grad(found[..., channel].sum(), x, retain_graph=True)[0]
        assert [bool(by[..., other].abs().sum() > 0) for other in range(3)] == [other == channel for other in range(3)]
    torch.testing.assert_close(forecaster(x[..., 1:2]), found[..., 1:2], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("period", "horizon"), [(1, 4), (3, 7), (5, 2)])
def test_the_naive_forecast_repeats_the_last_period(period: int, horizon: int) -> None:
    x = draw(2, 9)
    found = seasonal_naive(x, period, horizon)
    for h in range(1, horizon + 1):
        assert torch.equal(found[:, h - 1], x[:, 9 + h - 1 - period * math.ceil(h / period)])


def test_a_period_longer_than_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold a period of 10"):
        seasonal_naive(draw(2, 9), 10, 3)
