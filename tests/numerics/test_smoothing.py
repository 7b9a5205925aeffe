"""Label smoothing: every variant's distribution, its identities, and the loss against loops."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.losses import (
    Smoothing,
    confidence_penalty,
    no_smoothing,
    others,
    others_but_pad,
    restrict,
    smoothed_cross_entropy,
    uniform,
    unigram,
)

V = 7
VARIANTS = {
    "none": no_smoothing(V),
    "uniform": uniform(V, 0.1),
    "others": others(V, 0.1),
    "others_but_pad": others_but_pad(V, 0.1, pad=0),
    "unigram": unigram(torch.tensor([0, 1, 2, 3, 4, 5, 6]), 0.1),
    "confidence_penalty": confidence_penalty(V, 0.3),
}
every_variant = pytest.mark.parametrize("smoothing", VARIANTS.values(), ids=VARIANTS.keys())


def distribution(smoothing: Smoothing, target: int) -> Tensor:
    q = smoothing.background.clone()
    q[target] += smoothing.confidence
    return q


def draw(rows: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    logits = torch.randn(rows, V, dtype=torch.float64, generator=generator, requires_grad=True)
    return logits, torch.randint(1, V, (rows,), generator=generator)


@every_variant
def test_the_targets_are_a_distribution(smoothing: Smoothing) -> None:
    assert abs(distribution(smoothing, 2).sum().item() - 1) < 1e-12
    assert (smoothing.background >= 0).all()


def test_each_variant_has_its_own_numbers() -> None:
    assert distribution(uniform(V, 0.1), 2).tolist() == pytest.approx([0.1 / 7] * 2 + [0.9 + 0.1 / 7] + [0.1 / 7] * 4)
    assert distribution(others(V, 0.1), 2).tolist() == pytest.approx([0.1 / 6] * 2 + [0.9] + [0.1 / 6] * 4)
    assert distribution(others_but_pad(V, 0.1, 0), 2).tolist() == pytest.approx([0.0, 0.02, 0.9] + [0.02] * 4)
    assert distribution(unigram(torch.tensor([1.0, 0.0, 3.0]), 0.2), 1).tolist() == pytest.approx([0.05, 0.8, 0.15])


def test_uniform_is_others_with_a_smaller_epsilon() -> None:
    one, other = uniform(V, 0.1), others(V, 0.1 * (V - 1) / V)
    assert torch.allclose(distribution(one, 3), distribution(other, 3), rtol=0, atol=1e-12)


@every_variant
@pytest.mark.parametrize("rows", [1, 5])
def test_the_loss_is_the_double_sum_of_its_definition(smoothing: Smoothing, rows: int) -> None:
    logits, targets = draw(rows)
    weights = torch.arange(rows, dtype=torch.float64) / 2
    log_probs = torch.log_softmax(logits, dim=-1)
    loss, nll = smoothed_cross_entropy(log_probs, targets, smoothing, weights)
    expected = expected_nll = 0.0
    for row, target, weight in zip(log_probs.tolist(), targets.tolist(), weights.tolist(), strict=True):
        q = distribution(smoothing, target).tolist()
        entropy = -sum(math.exp(lp) * lp for lp in row)
        expected += weight * (-sum(a * lp for a, lp in zip(q, row, strict=True)) - smoothing.entropy_penalty * entropy)
        expected_nll -= weight * row[target]
    assert abs(loss.item() - expected) < 1e-10
    assert abs(nll.item() - expected_nll) < 1e-10
    assert not nll.requires_grad


@every_variant
def test_a_row_of_weight_zero_contributes_nothing(smoothing: Smoothing) -> None:
    logits, targets = draw(4)
    log_probs = torch.log_softmax(logits, dim=-1)
    padded = smoothed_cross_entropy(log_probs, targets, smoothing, torch.tensor([1.0, 1, 1, 0]).double())
    short = smoothed_cross_entropy(log_probs[:3], targets[:3], smoothing)
    assert torch.allclose(torch.stack(padded), torch.stack(short), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["none", "uniform", "others", "others_but_pad", "unigram"])
def test_the_gradient_of_the_logits_is_p_minus_q(name: str) -> None:
    logits, targets = draw()
    probs = torch.softmax(logits, dim=-1)
    loss, _ = smoothed_cross_entropy(torch.log_softmax(logits, dim=-1), targets, VARIANTS[name])
    (gradient,) = torch.autograd.grad(loss, logits)
    q = torch.stack([distribution(VARIANTS[name], int(t)) for t in targets])
    assert torch.allclose(gradient, probs - q, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["uniform", "others", "unigram"])
def test_the_least_loss_is_the_entropy_of_q_at_p_equals_q(name: str) -> None:
    q = distribution(VARIANTS[name], 3)
    entropy = torch.special.entr(q).sum()
    at_q, _ = smoothed_cross_entropy(q.log()[None], torch.tensor([3]), VARIANTS[name])
    elsewhere, _ = smoothed_cross_entropy(torch.log_softmax(draw(1)[0], -1), torch.tensor([3]), VARIANTS[name])
    assert abs(at_q.item() - entropy.item()) < 1e-10
    assert elsewhere > at_q


def test_epsilon_zero_is_cross_entropy_and_uniform_is_pytorchs() -> None:
    logits, targets = draw()
    log_probs = torch.log_softmax(logits, dim=-1)
    for epsilon in (0.0, 0.2):
        expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=epsilon)
        assert torch.allclose(smoothed_cross_entropy(log_probs, targets, uniform(V, epsilon))[0], expected)
    plain = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    for smoothing in (no_smoothing(V), others(V, 0.0), others_but_pad(V, 0.0, 0), confidence_penalty(V, 0.0)):
        assert torch.allclose(smoothed_cross_entropy(log_probs, targets, smoothing)[0], plain, rtol=0, atol=1e-10)


@every_variant
def test_banned_tokens_leave_the_loss_finite(smoothing: Smoothing) -> None:
    allowed = torch.tensor([True, True, False, True, True, False, True])
    logits, _ = draw(2)
    log_probs = torch.log_softmax(logits.masked_fill(~allowed, -torch.inf), dim=-1)
    limited = restrict(smoothing, allowed)
    assert abs(distribution(limited, 1).sum().item() - 1) < 1e-12
    loss, _ = smoothed_cross_entropy(log_probs, torch.tensor([1, 3]), limited)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_only_plain_cross_entropy_is_plain() -> None:
    assert [name for name, smoothing in VARIANTS.items() if smoothing.is_plain] == ["none"]
