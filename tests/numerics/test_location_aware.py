"""Location-aware attention against loops; without filters it is additive attention."""

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import (
    additive_scores,
    location_aware_scores,
    location_features,
    masked_softmax,
    near_median,
)
from qkv.layers.attention import LocationAwareAttention, LocationAwareConfig
from qkv.layers.attention.context import AttentionContext
from qkv.layers.recurrent import LocationAwareRecurrent
from tests.support.attentions import ragged


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_features_and_scores_equal_loops() -> None:
    weights, filters = numbers(2, 3, 7).softmax(-1), numbers(3, 4, 5, seed=1)
    q, k, u, v = numbers(2, 3, 6, seed=2), numbers(2, 3, 7, 6, seed=3), numbers(3, 4, 6, seed=4), numbers(3, 6, seed=5)
    features = location_features(weights, filters)
    scores = location_aware_scores(q, k, features, u, v)
    for b, h, j in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(7)).tolist():
        seen = [
            sum(float(filters[h, c, d]) * float(weights[b, h, j + d - 2]) for d in range(5) if 0 <= j + d - 2 < 7)
            for c in range(4)
        ]
        torch.testing.assert_close(features[b, h, j], torch.tensor(seen).double(), rtol=0, atol=1e-6)
        hidden = (q[b, h] + k[b, h, j] + torch.tensor(seen).double() @ u[h]).tanh()
        torch.testing.assert_close(scores[b, h, j], hidden @ v[h], rtol=0, atol=1e-6)


def module() -> LocationAwareAttention:
    torch.manual_seed(0)
    return LocationAwareAttention(16, 4, filters=3, width=5).double()


def weights_of(attention: LocationAwareAttention, keep: Tensor | None, length: int = 6) -> Tensor:
    q, k = numbers(2, 4, length, 4, seed=6), numbers(2, 4, 9, 4, seed=7)
    return attention.weights(q, k, AttentionContext(torch.arange(length), torch.arange(9), keep=keep))


def test_without_filters_it_is_additive_attention() -> None:
    attention, keep = module(), ragged([9, 5])
    with torch.no_grad():
        attention.filters.zero_()
    q, k = numbers(2, 4, 6, 4, seed=6), numbers(2, 4, 9, 4, seed=7)
    wanted = masked_softmax(additive_scores(q, k, attention.score), keep[:, None, None])
    torch.testing.assert_close(weights_of(attention, keep), wanted, rtol=0, atol=1e-12)


def test_rows_sum_to_one_and_an_output_depends_on_those_before_it_alone() -> None:
    attention, keep = module(), ragged([9, 5])
    weights = weights_of(attention, keep)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6).double(), rtol=0, atol=1e-12)
    assert not weights[1, :, :, 5:].any()
    with torch.no_grad():
        attention.filters.mul_(3)
    assert not torch.allclose(weights_of(attention, keep)[:, :, 1:], weights[:, :, 1:], atol=1e-3)


def test_padding_does_not_reach_the_convolution() -> None:
    attention = module()
    q, k = numbers(2, 4, 6, 4, seed=6), numbers(2, 4, 9, 4, seed=7)
    alone = attention.weights(q[1:], k[1:, :, :5], AttentionContext(torch.arange(6), torch.arange(5)))
    torch.testing.assert_close(weights_of(attention, ragged([9, 5]))[1:, :, :, :5], alone, rtol=0, atol=1e-12)


def test_it_goes_on_from_what_was_carried() -> None:
    attention = module()
    q, k = numbers(2, 4, 6, 4, seed=6), numbers(2, 4, 9, 4, seed=7)
    context = AttentionContext(torch.arange(6), torch.arange(9))
    whole, carried = attention.follow(attention.first(q, k), q, k, context)
    later, _ = attention.follow(carried[:, :, 2], q[:, :, 3:], k, context)
    torch.testing.assert_close(later, whole[:, :, 3:], rtol=0, atol=1e-12)


def test_gradients_pass_through_the_scan() -> None:
    attention = module()
    q, k = numbers(1, 4, 3, 4, seed=6).requires_grad_(), numbers(1, 4, 4, 4, seed=7).requires_grad_()
    context = AttentionContext(torch.arange(3), torch.arange(4))
    assert torch.autograd.gradcheck(lambda q, k: attention.weights(q, k, context), (q, k))


def test_an_even_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="must be odd, so that a filter has a middle: 9 or 11"):
        LocationAwareConfig(width=10)


def test_a_window_moves_with_the_median() -> None:
    attention = module()
    attention.window = 2
    weights = weights_of(attention, ragged([9, 5]))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6).double(), rtol=0, atol=1e-12)
    assert bool((weights[:, :, 0, :3] > 0).all())
    assert not weights[:, :, 0, 3:].any()
    for row in range(1, 6):
        median = (weights[:, :, row - 1].cumsum(-1) < 0.5).sum(-1, keepdim=True)
        far = (torch.arange(9) - median).abs() > 2
        assert not weights[:, :, row][far].any()
        assert bool((weights[:1, :, row][~far[:1]] > 0).all())


def test_without_a_place_to_start_from_the_first_output_attends_by_content_to_all_keys() -> None:
    torch.manual_seed(0)
    attention = LocationAwareConfig(filters=3, width=5, window=2, start="anywhere").build(16, 4, 0.0, None, 0).double()
    q, k = numbers(2, 4, 3, 4, seed=6), numbers(2, 4, 9, 4, seed=7)
    keep = ragged([9, 5])
    pos = torch.arange(9)
    weights = attention.align(q, k, AttentionContext(pos[:3], pos, keep=keep))
    scores = ((q[:, :, :1] + k).tanh() * attention.score[:, None]).sum(-1)
    by_content = scores.masked_fill(~keep[:, None], -torch.inf).softmax(-1)
    torch.testing.assert_close(weights[:, :, 0], by_content, rtol=0, atol=1e-12)
    far = (pos - weights[:, :, 0].argmax(-1, keepdim=True)).abs() > 2
    assert not weights[:, :, 1][far].any()
    assert bool((weights[:1, :, 1][~far[:1]] > 0).all())


def test_in_a_recurrent_decoder_it_is_the_same_equation() -> None:
    """One head as wide as the model; without filters it is the additive attention that it extends."""
    torch.manual_seed(0)
    attention = LocationAwareRecurrent(8, filters=3, width=5, window=3).double()
    q, memory, before = numbers(4, 8), numbers(2, 7, 8, seed=1), numbers(4, 7, seed=2).softmax(-1)
    keep = ragged([7, 5])
    context, weights = (part[:, 0] for part in attention(q[:, None], attention.keys(memory), memory, keep, before)[:2])
    for row in range(4):
        keys = attention.key(memory[row // 2])
        features = location_features(before[None, row : row + 1], attention.filters)[0, 0]
        scores = (attention.query(q[row]) + keys + features @ attention.location[0]).tanh() @ attention.score.v[0]
        allowed = keep[row // 2] & near_median(before[None, row : row + 1], 3)[0, 0]
        wanted = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        torch.testing.assert_close(weights[row], wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(context[row], wanted @ memory[row // 2], rtol=0, atol=1e-12)
