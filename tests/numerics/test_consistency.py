"""Consistency: the definition against loops in float64, and the fused projection and loss against the definition."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from qkv.functional.losses import (
    AgreementFactors,
    Smoothing,
    confidence_penalty,
    consistent_cross_entropy,
    kl_divergence,
    no_smoothing,
    others_but_pad,
    r_drop,
    sim_cut,
    smoothed_cross_entropy,
    uniform,
    unigram,
)
from qkv.kernels.cross_entropy import linear_consistent_cross_entropy, linear_cross_entropy

N, D, V = 7, 4, 11
MIXED = Smoothing(0.8, unigram(torch.arange(V), 0.2).background, entropy_penalty=0.3)
UNEQUAL = AgreementFactors(first=0.7, second=0.4, forward=1.3, backward=0.6)
SMOOTHINGS = {
    "none": no_smoothing(V),
    "others_but_pad": others_but_pad(V, 0.1, 0),
    "confidence_penalty": confidence_penalty(V, 0.4),
    "mixed": MIXED,
}
AGREEMENTS = {
    "r_drop": r_drop(5.0),
    "sim_cut": sim_cut(3.0),
    "sim_cut_fixed": sim_cut(3.0, fixed=True),
    "unequal": UNEQUAL,
    "unequal_fixed": replace(UNEQUAL, fixed=True),
}
every_smoothing = pytest.mark.parametrize("smoothing", SMOOTHINGS.values(), ids=SMOOTHINGS.keys())
every_agreement = pytest.mark.parametrize("agreement", AGREEMENTS.values(), ids=AGREEMENTS.keys())


def draw(rows: int = N, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Hidden states of pairs, projection, bias, targets, weights."""
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True)

    targets = torch.randint(0, V, (rows,), generator=generator)
    return normal(rows, 2, D), normal(V, D), normal(V), targets, torch.rand(rows, dtype=dtype, generator=generator)


def slow(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return consistent_cross_entropy(torch.log_softmax(linear(hidden, weight, bias), dim=-1), targets, *rest)


def some_log_probs() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(N, 2, V, dtype=torch.float64, generator=generator).log_softmax(dim=-1)


def kl_by_loop(log_p: Tensor, log_q: Tensor) -> float:
    return sum(math.exp(a) * (a - b) for a, b in zip(log_p.tolist(), log_q.tolist(), strict=True))


@every_agreement
def test_the_definition_against_loops(agreement: AgreementFactors) -> None:
    log_probs, targets, weights = some_log_probs(), torch.arange(N), torch.linspace(0.5, 2, N, dtype=torch.float64)
    wanted, wanted_nll = 0.0, 0.0
    for row in range(N):
        one, two, weight = log_probs[row, 0], log_probs[row, 1], float(weights[row])
        for share, log_p in ((agreement.first, one), (agreement.second, two)):
            q = [0.9 * (v == row) + 0.1 / V for v in range(V)]
            wanted -= weight * share * sum(q[v] * float(log_p[v]) for v in range(V))
        wanted += weight * (agreement.forward * kl_by_loop(one, two) + agreement.backward * kl_by_loop(two, one))
        wanted_nll -= weight * float(one[row])
    loss, nll = consistent_cross_entropy(log_probs, targets, uniform(V, 0.1), agreement, weights)
    assert float(loss) == pytest.approx(wanted, rel=1e-12)
    assert float(nll) == pytest.approx(wanted_nll, rel=1e-12)


def test_r_drop_is_half_of_what_is_published() -> None:
    """CE₁ + CE₂ + α / 2 [KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)]; with exchanged passes the same."""
    log_probs, targets, smoothing = some_log_probs(), torch.arange(N), others_but_pad(V, 0.1, 0)
    one, two = log_probs.unbind(dim=1)
    cross_entropies = sum(smoothed_cross_entropy(each, targets, smoothing)[0] for each in (one, two))
    published = cross_entropies + 5 / 2 * (kl_divergence(one, two) + kl_divergence(two, one)).sum()
    found, _ = consistent_cross_entropy(log_probs, targets, smoothing, r_drop(5.0))
    assert float(2 * found) == pytest.approx(float(published), rel=1e-12)
    exchanged, _ = consistent_cross_entropy(log_probs.flip(1), targets, smoothing, r_drop(5.0))
    assert float(exchanged) == pytest.approx(float(found), rel=1e-12)
    without, _ = consistent_cross_entropy(log_probs, targets, smoothing, r_drop(0.0))
    assert float(without) == pytest.approx(float(cross_entropies) / 2, rel=1e-12)


def test_sim_cut_is_what_is_published() -> None:
    log_probs, targets, smoothing = some_log_probs(), torch.arange(N), others_but_pad(V, 0.1, 0)
    one, two = log_probs.unbind(dim=1)
    published = smoothed_cross_entropy(one, targets, smoothing)[0] + 3 * kl_divergence(one, two).sum()
    found, _ = consistent_cross_entropy(log_probs, targets, smoothing, sim_cut(3.0))
    assert float(found) == pytest.approx(float(published), rel=1e-12)


def test_the_divergence_is_torchs_and_not_negative() -> None:
    one, two = some_log_probs().unbind(dim=1)
    wanted = torch.nn.functional.kl_div(two, one, reduction="none", log_target=True).sum(dim=1)
    assert torch.allclose(kl_divergence(one, two), wanted, rtol=0, atol=1e-14)
    assert bool((kl_divergence(one, two) > 0).all())
    assert not kl_divergence(one, one).any()


def test_a_token_that_both_rule_out_counts_nothing() -> None:
    logits = some_log_probs()
    logits[:, :, 4] = -torch.inf
    banned = logits.log_softmax(dim=-1).requires_grad_()
    kept = torch.cat([logits[:, :, :4], logits[:, :, 5:]], dim=2).log_softmax(dim=-1)
    found = kl_divergence(banned[:, 0], banned[:, 1])
    assert torch.allclose(found, kl_divergence(kept[:, 0], kept[:, 1]), rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(found.sum(), banned)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("agreement", [sim_cut(3.0, fixed=True), replace(UNEQUAL, fixed=True, first=0.0)])
def test_fixed_divergences_do_not_move_the_first_pass(agreement: AgreementFactors) -> None:
    log_probs, targets = some_log_probs().requires_grad_(), torch.arange(N)
    loss, _ = consistent_cross_entropy(log_probs, targets, no_smoothing(V), agreement)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    alone = log_probs.detach()[:, 0].requires_grad_()
    plain, _ = smoothed_cross_entropy(alone, targets, no_smoothing(V))
    (wanted,) = torch.autograd.grad(agreement.first * plain, alone)
    assert torch.equal(gradient[:, 0], wanted)
    assert bool(gradient[:, 1].any())


@every_agreement
@every_smoothing
@pytest.mark.parametrize(("chunk", "biased", "weighted"), [(1, True, True), (3, False, True), (100, True, False)])
def test_the_kernel_equals_the_definition(
    agreement: AgreementFactors, smoothing: Smoothing, chunk: int, biased: bool, weighted: bool
) -> None:
    hidden, weight, bias, targets, weights = draw()
    b, w = bias if biased else None, weights if weighted else None
    leaves = (hidden, weight, bias) if biased else (hidden, weight)
    fast = linear_consistent_cross_entropy(hidden, weight, b, targets, smoothing, agreement, w, chunk)
    expected = slow(hidden, weight, b, targets, smoothing, agreement, w)
    assert torch.allclose(torch.stack(fast), torch.stack(expected), rtol=0, atol=1e-10)
    assert not fast[1].requires_grad
    for found, wanted in zip(
        torch.autograd.grad(fast[0] / 5, leaves), torch.autograd.grad(expected[0] / 5, leaves), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("agreement", [r_drop(5.0), sim_cut(3.0), UNEQUAL], ids=["r_drop", "sim_cut", "unequal"])
@pytest.mark.parametrize("smoothing", [others_but_pad(V, 0.1, 0), MIXED], ids=["others_but_pad", "mixed"])
def test_gradcheck(agreement: AgreementFactors, smoothing: Smoothing) -> None:
    hidden, weight, bias, targets, weights = draw(3)

    def run(h: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return linear_consistent_cross_entropy(h, w, b, targets, smoothing, agreement, weights, chunk=2)[0]

    assert torch.autograd.gradcheck(run, (hidden, weight, bias))


@every_agreement
def test_passes_that_agree_give_the_loss_of_one(agreement: AgreementFactors) -> None:
    """With the sum of the two shares before it; and the gradients add up to its own."""
    hidden, weight, bias, targets, weights = draw()
    single = hidden.detach()[:, 0].clone().requires_grad_()
    twice = single[:, None].expand(-1, 2, -1)
    loss, nll = linear_consistent_cross_entropy(twice, weight, bias, targets, MIXED, agreement, weights)
    plain, plain_nll = linear_cross_entropy(single, weight, bias, targets, MIXED, weights)
    share = agreement.first + agreement.second
    assert torch.allclose(loss, share * plain, rtol=1e-12)
    assert torch.allclose(nll, plain_nll, rtol=1e-12)
    leaves = (single, weight, bias)
    for found, wanted in zip(
        torch.autograd.grad(loss, leaves), torch.autograd.grad(share * plain, leaves), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


def test_without_gradients_the_sums_are_the_same() -> None:
    hidden, weight, bias, targets, _ = draw()
    with torch.no_grad():
        found = linear_consistent_cross_entropy(hidden, weight, bias, targets, MIXED, UNEQUAL, chunk=3)
    assert not found[0].requires_grad
    expected = slow(hidden, weight, bias, targets, MIXED, UNEQUAL)
    assert torch.allclose(torch.stack(found), torch.stack(expected), atol=1e-10)


def test_no_rows_give_zero_loss_and_zero_gradients() -> None:
    _, weight, bias, _, _ = draw()
    hidden = torch.empty(0, 2, D, dtype=torch.float64, requires_grad=True)
    none = torch.empty(0, dtype=torch.long)
    loss, nll = linear_consistent_cross_entropy(hidden, weight, bias, none, MIXED, UNEQUAL)
    assert loss.item() == nll.item() == 0
    assert not any(g.any() for g in torch.autograd.grad(loss, (hidden, weight, bias)))


def test_huge_logits_stay_finite() -> None:
    hidden, weight, bias, targets, _ = draw(dtype=torch.float32)
    big = (hidden * 1e4).detach().requires_grad_()
    loss, nll = linear_consistent_cross_entropy(big, weight, bias, targets, others_but_pad(V, 0.1, 0), r_drop(5.0))
    gradients = torch.autograd.grad(loss, (big, weight, bias))
    assert all(torch.isfinite(x).all() for x in (loss, nll, *gradients))


def test_float32_is_close_to_float64() -> None:
    wide = draw()
    narrow = [x.detach().float().requires_grad_() for x in wide[:3]]
    found = linear_consistent_cross_entropy(narrow[0], narrow[1], narrow[2], wide[3], MIXED, UNEQUAL)
    expected = linear_consistent_cross_entropy(*wide[:4], MIXED, UNEQUAL)
    assert torch.allclose(torch.stack(found).double(), torch.stack(expected), rtol=1e-5)
    for low, high in zip(
        torch.autograd.grad(found[0], narrow), torch.autograd.grad(expected[0], wide[:3]), strict=True
    ):
        assert torch.allclose(low.double(), high, rtol=1e-4, atol=1e-5)


def test_bfloat16_autocast_sums_in_float32() -> None:
    leaves = [x.detach().float().requires_grad_() for x in draw()[:3]]
    states, weight, bias = leaves
    targets = draw()[3]
    with torch.autocast("cpu", torch.bfloat16):
        loss, nll = linear_consistent_cross_entropy(states, weight, bias, targets, MIXED, UNEQUAL, chunk=3)
    expected, expected_nll = slow(states, weight, bias, targets, MIXED, UNEQUAL)
    assert loss.dtype == nll.dtype == torch.float32
    assert torch.allclose(loss, expected, rtol=2e-2)
    assert torch.allclose(nll, expected_nll, rtol=2e-2)
    for found, wanted in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        assert found.dtype == torch.float32
        assert (found - wanted).norm() < 0.05 * wanted.norm()
