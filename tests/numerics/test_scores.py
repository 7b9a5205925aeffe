"""Scores beside the scaled dot product, and weights that may be zero, against loops and against what defines them."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import (
    additive_scores,
    cosine_scores,
    entmax,
    general_scores,
    masked_softmax,
    scaled_dot_scores,
    sparsemax,
)
from qkv.kernels import attention as additive
from qkv.layers.attention.scores import Additive, Cosine, Dot, General, ScaledDot


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


def test_additive_is_a_loop_over_pairs() -> None:
    q, k, v = draw(2, 3, 4, 5).detach(), draw(2, 3, 6, 5).detach(), draw(3, 5).detach()
    scores = additive_scores(q, k, v)
    for b, h, i, j in [(0, 0, 0, 0), (1, 2, 3, 5), (0, 1, 2, 4)]:
        wanted = sum(float(v[h, e]) * math.tanh(float(q[b, h, i, e] + k[b, h, j, e])) for e in range(5))
        assert float(scores[b, h, i, j]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("block", [1, 90, 1 << 20])
def test_blocked_additive_equals_its_twin(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "BLOCK", block)
    leaves = draw(2, 3, 7, 5), draw(2, 3, 4, 5), draw(3, 5)
    fast, slow = additive.additive_scores(*leaves), additive_scores(*leaves)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    upstream = torch.randn_like(slow)
    found, wanted = (torch.autograd.grad(scores, leaves, upstream) for scores in (fast, slow))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_cosine_ignores_lengths_and_lies_within_its_scale() -> None:
    q, k, scale = draw(2, 3, 4, 5), draw(2, 3, 6, 5), torch.tensor([1.0, 2.0, 7.0]).double()
    scores = cosine_scores(q, k, scale)
    torch.testing.assert_close(cosine_scores(5 * q, 0.1 * k, scale), scores)
    assert bool((scores.abs() <= scale[:, None, None] + 1e-12).all())
    torch.testing.assert_close(cosine_scores(q, q, scale).diagonal(dim1=2, dim2=3), scale[:, None].expand(2, 3, 4))


def test_general_is_a_loop_over_pairs() -> None:
    q, k, w = draw(2, 3, 4, 5).detach(), draw(2, 3, 6, 5).detach(), draw(3, 5, 5).detach()
    scores = general_scores(q, k, w)
    for b, h, i, j in [(0, 0, 0, 0), (1, 2, 3, 5), (0, 1, 2, 4)]:
        terms = [q[b, h, i, e] * w[h, e, f] * k[b, h, j, f] for e in range(5) for f in range(5)]
        assert float(scores[b, h, i, j]) == pytest.approx(float(sum(terms)), abs=1e-12)


def test_modules_of_scores_equal_their_equations() -> None:
    q, k = draw(2, 3, 4, 5), draw(2, 3, 6, 5)
    cosine, added, general = Cosine(3).double(), Additive(3, 5).double(), General(3, 5).double()
    pairs = [
        (ScaledDot(), scaled_dot_scores(q, k)),
        (Dot(), q @ k.transpose(2, 3)),
        (cosine, cosine_scores(q, k, cosine.log_scale.exp())),
        (added, additive_scores(q, k, added.v)),
        (general, general_scores(q, k, general.weight)),
    ]
    for module, wanted in pairs:
        torch.testing.assert_close(module(module.queries(q), module.keys(k)), wanted, rtol=0, atol=1e-10)


MASK = torch.rand(2, 1, 4, 9, generator=torch.Generator().manual_seed(3)) < 0.6
MASK[0, 0, 1] = False


def threshold_by_bisection(z: Tensor, power: float) -> Tensor:
    """The τ with Σ max(0, z - τ)^power = 1, found without sorting."""
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(80):
        middle = (low + high) / 2
        above = (z - middle).clamp_min(0).pow(power).sum(-1, keepdim=True) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


@pytest.mark.parametrize(("normalize", "power", "factor"), [(sparsemax, 1, 1.0), (entmax, 2, 0.5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_sparse_weights_solve_their_equation(
    normalize: object, power: float, factor: float, masked: bool, spread: float
) -> None:
    assert callable(normalize)
    scores = spread * draw(2, 3, 4, 9).detach()
    mask = MASK if masked else None
    weights = normalize(scores, mask)
    z = factor * (scores if mask is None else scores.masked_fill(~mask, -1e9))
    wanted = (z - threshold_by_bisection(z, power)).clamp_min(0).pow(power)
    rows = torch.ones(2, 1, 4, dtype=torch.bool) if mask is None else mask.any(-1)
    torch.testing.assert_close(weights, wanted * rows[..., None], rtol=0, atol=1e-9)
    torch.testing.assert_close(weights.sum(-1), rows.expand(2, 3, 4).double())
    if mask is not None:
        assert not weights[~mask.expand_as(weights)].any()


@pytest.mark.parametrize("normalize", [sparsemax, entmax])
def test_sparse_weights_have_the_right_gradient(normalize: object) -> None:
    assert callable(normalize)
    scores = 2 * draw(2, 1, 4, 9)
    assert torch.autograd.gradcheck(lambda s: normalize(s, MASK), (scores,))
    assert torch.autograd.gradcheck(lambda s: normalize(s, None), (scores,))
    (gradient,) = torch.autograd.grad(normalize(scores, MASK).square().sum(), scores)
    assert not gradient[0, 0, 1].any()


TIES = [[1.0, 0.0], [0.0, -1.0, -1.0], [2.0, 1.5, 1.5, 1.5, -1.0], [0.5, 0.5, 0.5], [3.0, 2.0, 2.5], [4.0, 0.0, 2.0]]
"""Rows in which a key stands exactly at the threshold, or beside another that does."""


@pytest.mark.parametrize("normalize", [sparsemax, entmax])
@pytest.mark.parametrize("row", TIES, ids=str)
def test_the_gradient_at_ties_leaves_the_sum_at_one(normalize: object, row: list[float]) -> None:
    """The sum is 1 whatever the scores are, so its gradient is 0; and equal scores have equal derivatives."""
    assert callable(normalize)
    scores = torch.tensor([[[row]]], dtype=torch.float64, requires_grad=True)
    (of_sum,) = torch.autograd.grad(normalize(scores).sum(), scores)
    torch.testing.assert_close(of_sum, torch.zeros_like(scores), rtol=0, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian(normalize, scores).reshape(len(row), len(row))
    torch.testing.assert_close(jacobian, jacobian.T, rtol=0, atol=1e-12)
    assert not jacobian[normalize(scores).flatten() == 0].any()


def test_sparsemax_of_one_and_zero() -> None:
    scores = torch.tensor([[[[1.0, 0.0]]]], requires_grad=True)
    assert sparsemax(scores).tolist() == [[[[1.0, 0.0]]]]
    assert not torch.autograd.functional.jacobian(sparsemax, scores).any()


@pytest.mark.parametrize("normalize", [sparsemax, entmax])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_coarse_scores_have_a_gradient_without_a_drift(normalize: object, dtype: torch.dtype) -> None:
    """Scores of few bits stand at the threshold now and then; no row may gain or lose weight by that."""
    assert callable(normalize)
    scores = (2 * draw(2, 4, 250, 16).detach()).to(dtype).requires_grad_()
    weights = normalize(scores)
    assert bool((weights >= 0).all())
    (of_sum,) = torch.autograd.grad(weights.float().sum(), scores)
    torch.testing.assert_close(of_sum.float(), torch.zeros(scores.shape), rtol=0, atol=1e-5)


def test_entmax_is_sparser_than_softmax_and_denser_than_sparsemax() -> None:
    scores = 2 * draw(2, 3, 40, 30).detach()
    softmax, middle, sparse = ((w(scores, None) > 0).double().mean() for w in (masked_softmax, entmax, sparsemax))
    assert 1 == softmax > middle > 1.2 * sparse
