"""The fused projection and loss against the slow definition: sums, gradients, chunks, precisions."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from qkv.functional.losses import Smoothing, confidence_penalty, no_smoothing, others_but_pad, smoothed_cross_entropy
from qkv.functional.losses import unigram as unigram_smoothing
from qkv.kernels.cross_entropy import linear_cross_entropy

N, D, V = 7, 4, 11
MIXED = Smoothing(0.8, unigram_smoothing(torch.arange(V), 0.2).background, entropy_penalty=0.3)
VARIANTS = {
    "none": no_smoothing(V),
    "others_but_pad": others_but_pad(V, 0.1, 0),
    "confidence_penalty": confidence_penalty(V, 0.4),
    "mixed": MIXED,
}


def draw(rows: int = N, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True)

    targets = torch.randint(0, V, (rows,), generator=generator)
    return normal(rows, D), normal(V, D), normal(V), targets, torch.rand(rows, dtype=dtype, generator=generator)


def slow(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return smoothed_cross_entropy(torch.log_softmax(linear(hidden, weight, bias), dim=-1), targets, *rest)


@pytest.mark.parametrize("smoothing", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("chunk", [1, 3, N, 100])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_its_twin(smoothing: Smoothing, chunk: int, biased: bool, weighted: bool) -> None:
    hidden, weight, bias, targets, weights = draw()
    b, w = bias if biased else None, weights if weighted else None
    leaves = (hidden, weight, bias) if biased else (hidden, weight)
    fast = linear_cross_entropy(hidden, weight, b, targets, smoothing, w, chunk)
    expected = slow(hidden, weight, b, targets, smoothing, w)
    assert torch.allclose(torch.stack(fast), torch.stack(expected), rtol=0, atol=1e-10)
    assert not fast[1].requires_grad
    for found, wanted in zip(
        torch.autograd.grad(fast[0] / 5, leaves), torch.autograd.grad(expected[0] / 5, leaves), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", VARIANTS.values(), ids=VARIANTS.keys())
def test_gradcheck(smoothing: Smoothing) -> None:
    hidden, weight, bias, targets, weights = draw(3)

    def run(h: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return linear_cross_entropy(h, w, b, targets, smoothing, weights, chunk=2)[0]

    assert torch.autograd.gradcheck(run, (hidden, weight, bias))


def test_without_gradients_the_sums_are_the_same() -> None:
    hidden, weight, bias, targets, _ = draw()
    with torch.no_grad():
        found = linear_cross_entropy(hidden, weight, bias, targets, MIXED, chunk=3)
    assert not found[0].requires_grad
    assert torch.allclose(torch.stack(found), torch.stack(slow(hidden, weight, bias, targets, MIXED)), atol=1e-10)


def test_frozen_weights_still_pass_a_gradient_to_the_hidden_states() -> None:
    hidden, weight, _, targets, _ = draw()
    frozen = weight.detach()
    (found,) = torch.autograd.grad(linear_cross_entropy(hidden, frozen, None, targets, MIXED)[0], hidden)
    (wanted,) = torch.autograd.grad(slow(hidden, frozen, None, targets, MIXED)[0], hidden)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


def test_no_rows_give_zero_loss_and_zero_gradients() -> None:
    _, weight, bias, _, _ = draw()
    hidden = torch.empty(0, D, dtype=torch.float64, requires_grad=True)
    loss, nll = linear_cross_entropy(hidden, weight, bias, torch.empty(0, dtype=torch.long), MIXED)
    assert loss.item() == nll.item() == 0
    gradients = torch.autograd.grad(loss, (hidden, weight, bias))
    assert not any(g.any() for g in gradients)


def test_huge_logits_stay_finite() -> None:
    hidden, weight, bias, targets, _ = draw(dtype=torch.float32)
    big = (hidden * 1e4).detach().requires_grad_()
    loss, nll = linear_cross_entropy(big, weight, bias, targets, others_but_pad(V, 0.1, 0))
    gradients = torch.autograd.grad(loss, (big, weight, bias))
    assert all(torch.isfinite(x).all() for x in (loss, nll, *gradients))


def test_float32_is_close_to_float64() -> None:
    wide = draw()
    narrow = [x.detach().float().requires_grad_() for x in wide[:3]]
    found = linear_cross_entropy(narrow[0], narrow[1], narrow[2], wide[3], MIXED)
    expected = linear_cross_entropy(*wide[:4], MIXED)
    assert torch.allclose(torch.stack(found).double(), torch.stack(expected), rtol=1e-5)
    for low, high in zip(
        torch.autograd.grad(found[0], narrow), torch.autograd.grad(expected[0], wide[:3]), strict=True
    ):
        assert torch.allclose(low.double(), high, rtol=1e-4, atol=1e-5)


def test_bfloat16_autocast_sums_in_float32() -> None:
    wide = [x.detach().float() for x in draw()[:3]]
    targets = draw()[3]
    leaves = [x.requires_grad_() for x in wide]
    with torch.autocast("cpu", torch.bfloat16):
        loss, nll = linear_cross_entropy(leaves[0], leaves[1], leaves[2], targets, MIXED, chunk=3)
    expected, expected_nll = slow(leaves[0], leaves[1], leaves[2], targets, MIXED)
    assert loss.dtype == nll.dtype == torch.float32
    assert torch.allclose(loss, expected, rtol=2e-2)
    assert torch.allclose(nll, expected_nll, rtol=2e-2)
    for found, wanted in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < 0.05 * wanted.norm()
