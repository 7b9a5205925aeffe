"""Dropout: its law, its scale, its gradient, and that torch's seed decides everything."""

import pytest
import torch

from qkv.kernels.dropout import LEVELS, dropout, dropout_mask


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_and_the_mean_are_kept(rate: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 333, dtype=torch.float64)
    y = dropout(x, rate)
    count = x.numel()
    dropped = (y == 0).sum().item()
    assert abs(dropped - rate * count) < 4 * (rate * (1 - rate) * count) ** 0.5
    assert abs(y.mean().item() - 1) < 4 * (rate / (1 - rate) / count) ** 0.5
    true_rate = round(rate * LEVELS) / LEVELS
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - true_rate), dtype=torch.float64))


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(400_000), 0.3) == 0).double()
    for lag in (1, 2, 4, 8, 128):
        together = (dropped[:-lag] * dropped[lag:]).mean().item()
        assert abs(together - 0.09) < 4 * (0.09 * 0.91 / 400_000) ** 0.5 * 1.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 4), (0, 4)])
def test_any_shape_is_kept(shape: tuple[int, ...]) -> None:
    assert dropout(torch.ones(shape), 0.5).shape == shape


def test_rate_zero_is_the_identity_and_rate_one_gives_zeros() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    assert dropout(x, 0.0) is x
    nothing = dropout(x, 1.0)
    assert not nothing.any()
    (gradient,) = torch.autograd.grad(nothing.sum(), x)
    assert not gradient.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_gradient_is_the_mask(dtype: torch.dtype) -> None:
    x = torch.randn(40, 30).to(dtype).requires_grad_()
    torch.manual_seed(3)
    y = dropout(x, 0.4)
    torch.manual_seed(3)
    mask = dropout_mask(x, 0.4)
    assert y.dtype == dtype
    assert torch.equal(y, x * mask)
    upstream = torch.randn(40, 30).to(dtype)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    assert torch.equal(gradient, upstream * mask)


def test_the_global_seed_and_the_saved_state_decide() -> None:
    x = torch.ones(100, 10)
    torch.manual_seed(7)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(dropout(x, 0.5), first)
    state = torch.get_rng_state()
    assert torch.equal(dropout(x, 0.5), second)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x, 0.5), second)


def test_a_generator_of_its_own_leaves_the_global_one_alone() -> None:
    x = torch.ones(100, 10)
    before = torch.get_rng_state()
    first, again = (dropout(x, 0.5, torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_number_of_threads_changes_nothing() -> None:
    x = torch.ones(300, 100)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(1)
            results.append(dropout(x, 0.2))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)
