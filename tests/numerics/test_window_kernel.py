"""Window attention in blocks against the dense definition with the mask of its predicate: outputs and gradients."""

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import scaled_dot_product
from qkv.functional.masks import both, build_mask, dilated, within
from qkv.kernels.window import Everywhere, Window, blocks, window_attention

LENGTHS = [1, 3, 4, 8, 9, 21]
"""Below, at, at twice and just above the size of a block, and several blocks."""
WINDOWS = [Window(0, 0), Window(4, 0), Window(2, 3), Window(7, 7), Window(100, 100), Window(2, 1, 3), Window(1, 1, 30)]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k = (draw(2, 3, length, 4) for _ in range(2))
    return q, k, draw(2, 3, length, 5)


def band(length: int, window: Window) -> Tensor:
    pos, (left, right, step) = torch.arange(length), window
    mask = build_mask(both(within(left * step, right * step), dilated(step)), pos, pos)
    assert mask is not None
    return mask


def same(fast: Tensor, slow: Tensor, leaves: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    upstream = torch.randn_like(slow)
    found, wanted = (torch.autograd.grad(out, leaves, upstream) for out in (fast, slow))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", LENGTHS)
def test_equals_dense_attention_with_a_band(length: int, window: Window) -> None:
    leaves = inputs(length)
    same(window_attention(*leaves, window), scaled_dot_product(*leaves, band(length, window))[0], leaves)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", LENGTHS)
def test_ragged_batches_and_rows_without_a_key(length: int, window: Window) -> None:
    leaves = inputs(length)
    keep = torch.arange(length) < torch.tensor([[length], [length // 3]])
    mask = band(length, window) & keep[:, None, None]
    same(window_attention(*leaves, window, keep), scaled_dot_product(*leaves, mask)[0], leaves)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", [3, 9, 21])
def test_keys_that_are_seen_everywhere(length: int, window: Window) -> None:
    """The same keys, given as two, with one softmax over both."""
    q, k, v = leaves = inputs(length)
    keep = torch.arange(length) < torch.tensor([[length], [max(1, length // 3)]])
    index = torch.tensor([[0, 2], [0, 1]])
    real = torch.tensor([[True, True], [True, False]])
    near = keep.clone()
    near[0, 0] = near[0, 2] = near[1, 0] = False

    def at(x: Tensor) -> Tensor:
        return torch.stack([x[row][:, index[row]] for row in range(2)])

    mask = (band(length, window) & near[:, None, None]) | (keep & ~near)[:, None, None]
    fast = window_attention(q, k, v, window, near, Everywhere(at(k), at(v), real))
    same(fast, scaled_dot_product(q, k, v, mask)[0], leaves)


def test_gradcheck() -> None:
    q, k, v = (draw(1, 2, 6, 2) for _ in range(3))
    keep = torch.tensor([[True, True, False, True, True, False]])
    assert torch.autograd.gradcheck(lambda q, k, v: window_attention(q, k, v, Window(2, 1), keep), (q, k, v))


def test_runs_under_bfloat16_autocast() -> None:
    q, k, v = (draw(2, 3, 9, 4).detach().float().requires_grad_() for _ in range(3))
    plain = window_attention(q, k, v, Window(3, 3))
    with torch.autocast("cpu", torch.bfloat16):
        low = window_attention(q, k, v, Window(3, 3))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), plain, rtol=0, atol=0.05)
    low.float().sum().backward()
    assert q.grad is not None
    assert bool(torch.isfinite(q.grad).all())


def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    """What is kept for the backward pass: a few copies of the input, no weights."""
    kept = 0

    def count(x: Tensor) -> Tensor:
        nonlocal kept
        kept += x.numel()
        return x

    leaves = inputs(512)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
        window_attention(*leaves, Window(64, 64))
    assert kept <= 2 * sum(x.numel() for x in leaves)
