"""Sinusoidal positions: the formula, rotation by offset, norm, and both layouts."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.functional.positions import sinusoidal, sinusoidal_half_split

FORMS = [sinusoidal, sinusoidal_half_split]


@pytest.mark.parametrize("width", [2, 6, 128])
def test_interleaved_is_the_papers_formula(width: int) -> None:
    encoded = sinusoidal(torch.arange(60), width, torch.float64)
    for p in (0, 1, 17, 59):
        for i in range(width // 2):
            angle = p / 10000 ** (2 * i / width)
            assert abs(encoded[p, 2 * i].item() - math.sin(angle)) < 1e-10
            assert abs(encoded[p, 2 * i + 1].item() - math.cos(angle)) < 1e-10


@pytest.mark.parametrize("width", [4, 6, 128])
def test_half_split_has_sines_then_cosines_and_its_own_frequencies(width: int) -> None:
    encoded = sinusoidal_half_split(torch.arange(60), width, torch.float64)
    half = width // 2
    for p in (0, 1, 17, 59):
        for i in range(half):
            angle = p * 10000 ** (-i / (half - 1))
            assert abs(encoded[p, i].item() - math.sin(angle)) < 1e-10
            assert abs(encoded[p, half + i].item() - math.cos(angle)) < 1e-10
    assert not torch.allclose(encoded.sort(dim=1).values, sinusoidal(torch.arange(60), width, torch.float64).sort(1)[0])


def test_half_split_of_width_two_has_frequency_one() -> None:
    assert torch.allclose(sinusoidal_half_split(torch.tensor([3]), 2), torch.tensor([[math.sin(3), math.cos(3)]]))


def test_an_offset_is_a_rotation_of_each_pair() -> None:
    width, offset = 16, 11
    near, far = (sinusoidal(torch.arange(40) + start, width, torch.float64) for start in (0, offset))
    for i in range(width // 2):
        turn = offset / 10000 ** (2 * i / width)
        sin, cos = near[:, 2 * i], near[:, 2 * i + 1]
        assert torch.allclose(far[:, 2 * i], sin * math.cos(turn) + cos * math.sin(turn), rtol=0, atol=1e-10)
        assert torch.allclose(far[:, 2 * i + 1], cos * math.cos(turn) - sin * math.sin(turn), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_squared_norm_is_half_the_width(form: Callable[..., Tensor]) -> None:
    norms = form(torch.arange(5000), 64, torch.float64).square().sum(dim=-1)
    assert torch.allclose(norms, torch.full_like(norms, 32.0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_any_shape_and_any_slice_equal_the_table(form: Callable[..., Tensor]) -> None:
    table = form(torch.arange(100), 10)
    positions = torch.tensor([[3, 99, 0], [7, 7, 42]])
    assert torch.equal(form(positions, 10), table[positions])
    assert torch.equal(form(torch.arange(60, 70), 10), table[60:70])
    assert form(torch.tensor(5), 10).shape == (10,)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [1, 7])
def test_an_odd_last_channel_is_zero(form: Callable[..., Tensor], width: int) -> None:
    encoded = form(torch.arange(9), width)
    assert encoded.shape == (9, width)
    assert not encoded[:, -1].any()


def test_far_positions_are_exact_in_float32() -> None:
    far = torch.tensor([1_000_000])
    assert torch.equal(sinusoidal(far, 8), sinusoidal(far, 8, torch.float64).float())
    assert abs(sinusoidal(far, 8)[0, 0].item() - math.sin(1_000_000)) < 1e-7
