"""Scaled dot-product attention against a triple loop, PyTorch's function and its own invariances."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import (
    attention_weights,
    dot_scores,
    masked_softmax,
    merge_heads,
    scaled_dot_product,
    scaled_dot_scores,
    split_heads,
)

SIZES = [(1, 1, 1, 1, 1, 1), (2, 3, 5, 7, 4, 4), (3, 2, 4, 1, 8, 2), (1, 4, 17, 19, 3, 6)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def inputs(batch: int, heads: int, queries: int, keys: int, width: int, value_width: int) -> tuple[Tensor, ...]:
    return (
        draw(batch, heads, queries, width, seed=1),
        draw(batch, heads, keys, width, seed=2),
        draw(batch, heads, keys, value_width, seed=3),
    )


def ragged(batch: int, keys: int) -> Tensor:
    """Row b keeps all keys but the last b, and at least one."""
    return torch.stack([torch.arange(keys) < max(1, keys - b) for b in range(batch)])[:, None, None, :]


@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_loops_of_the_equation(sizes: tuple[int, ...]) -> None:
    q, k, v = inputs(*sizes)
    mask = ragged(sizes[0], sizes[3])
    context, weights = scaled_dot_product(q, k, v, mask)
    for b, h, i in [(b, h, i) for b in range(sizes[0]) for h in range(sizes[1]) for i in range(sizes[2])]:
        allowed = [j for j in range(sizes[3]) if mask[b, 0, 0, j]]
        exps = {j: math.exp(sum(q[b, h, i] * k[b, h, j]) / math.sqrt(sizes[4])) for j in allowed}
        expected = {j: e / sum(exps.values()) for j, e in exps.items()}
        for j in range(sizes[3]):
            assert abs(weights[b, h, i, j] - expected.get(j, 0.0)) < 1e-10
        total = torch.stack([expected[j] * v[b, h, j] for j in allowed]).sum(dim=0)
        assert torch.allclose(context[b, h, i], total, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_built_in_function_with_mask_and_bias(sizes: tuple[int, ...]) -> None:
    q, k, v = inputs(*sizes)
    mask, bias = ragged(sizes[0], sizes[3]), draw(1, sizes[1], sizes[2], sizes[3])
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(~mask, -torch.inf))
    assert torch.allclose(scaled_dot_product(q, k, v, mask, bias)[0], expected, rtol=0, atol=1e-10)


def test_a_constant_added_to_a_row_changes_nothing() -> None:
    scores = draw(2, 2, 3, 5)
    assert torch.allclose(masked_softmax(scores), masked_softmax(scores + 7.0), rtol=0, atol=1e-12)


def test_zero_queries_give_the_mean_of_the_allowed_values() -> None:
    q, k, v = inputs(2, 2, 3, 5, 4, 4)
    mask = ragged(2, 5)
    context, _ = scaled_dot_product(torch.zeros_like(q), k, v, mask)
    assert torch.allclose(context[0], v[0].mean(dim=1, keepdim=True).expand_as(context[0]), rtol=0, atol=1e-10)
    assert torch.allclose(context[1], v[1, :, :4].mean(dim=1, keepdim=True).expand_as(context[1]), rtol=0, atol=1e-10)


def test_scores_of_ten_thousand_stay_finite_also_in_float32() -> None:
    scores = torch.tensor([[[[1e4, -1e4, 0.0]]]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[[[True, True, False]]]]))
    weights.square().sum().backward()
    assert torch.equal(weights.detach(), torch.tensor([[[[1.0, 0.0, 0.0]]]]))
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


def test_a_row_without_a_key_is_zero_and_has_no_gradient() -> None:
    q, k, v = (x.requires_grad_() for x in inputs(2, 2, 3, 5, 4, 4))
    mask = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    mask[0, 0, 1] = False
    context, weights = scaled_dot_product(q, k, v, mask)
    assert not context[0, :, 1].any()
    assert not weights[0, :, 1].any()
    gradients = torch.autograd.grad(context.square().sum(), (q, k, v))
    assert all(torch.isfinite(g).all() for g in gradients)
    assert not gradients[0][0, :, 1].any()
    assert gradients[0][0, :, 0].any()


def test_low_precision_scores_are_normalised_in_float32() -> None:
    assert masked_softmax(draw(1, 1, 2, 3).to(torch.bfloat16)).dtype == torch.float32


def test_unscaled_scores_of_a_scaled_query_are_the_scaled_scores() -> None:
    q, k, _ = inputs(2, 3, 5, 7, 4, 4)
    assert torch.allclose(dot_scores(q / math.sqrt(4), k), scaled_dot_scores(q, k), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [16, 64, 256])
def test_scaling_keeps_the_variance_of_the_scores_at_one(width: int) -> None:
    q, k = draw(4, 4, 64, width, seed=1), draw(4, 4, 64, width, seed=2)
    assert abs(scaled_dot_scores(q, k).var().item() - 1) < 0.1
    assert abs(dot_scores(q, k).var().item() / width - 1) < 0.1


def test_more_padding_or_garbage_in_it_changes_nothing() -> None:
    q, k, v = inputs(2, 2, 3, 5, 4, 4)
    garbage = torch.full((2, 2, 3, 4), 1e6, dtype=torch.float64)
    mask = torch.cat([torch.ones(2, 1, 1, 5), torch.zeros(2, 1, 1, 3)], dim=-1).bool()
    padded, _ = scaled_dot_product(q, torch.cat([k, garbage], dim=2), torch.cat([v, garbage], dim=2), mask)
    assert torch.allclose(padded, scaled_dot_product(q, k, v)[0], rtol=0, atol=1e-10)


def test_a_sentence_alone_equals_the_sentence_in_a_batch() -> None:
    q, k, v = inputs(3, 2, 4, 5, 4, 4)
    together, _ = scaled_dot_product(q, k, v)
    alone, _ = scaled_dot_product(q[1:2], k[1:2], v[1:2])
    assert torch.allclose(together[1:2], alone, rtol=0, atol=1e-10)


def test_permuting_the_keys_changes_nothing_and_permuting_the_queries_permutes() -> None:
    q, k, v = inputs(2, 2, 5, 5, 4, 4)
    order = torch.tensor([3, 0, 4, 1, 2])
    context, _ = scaled_dot_product(q, k, v)
    permuted, _ = scaled_dot_product(q[:, :, order], k[:, :, order], v[:, :, order])
    assert torch.allclose(permuted, context[:, :, order], rtol=0, atol=1e-10)


def test_the_sum_over_heads_equals_concatenation_before_the_output_projection() -> None:
    q, k, v = inputs(2, 3, 5, 7, 4, 4)
    w_o = draw(12, 12)
    context, _ = scaled_dot_product(q, k, v)
    by_head = torch.stack([context[:, h] @ w_o[h * 4 : (h + 1) * 4] for h in range(3)]).sum(dim=0)
    assert torch.allclose(merge_heads(context) @ w_o, by_head, rtol=0, atol=1e-10)


def test_split_and_merge_are_inverse_and_head_h_has_slice_h() -> None:
    x = draw(2, 5, 12)
    heads = split_heads(x, 3)
    assert torch.equal(heads[:, 1], x[..., 4:8])
    assert torch.equal(merge_heads(heads), x)


def test_weights_pass_gradcheck() -> None:
    q, k, v = (x.requires_grad_() for x in inputs(2, 2, 3, 4, 2, 2))
    mask = ragged(2, 4)
    assert torch.autograd.gradcheck(lambda q, k: attention_weights(q, k, mask), (q, k))
    assert torch.autograd.gradcheck(lambda q, k, v: scaled_dot_product(q, k, v, mask)[0], (q, k, v))


def test_multi_head_attention_equals_the_built_in_module_with_copied_weights() -> None:
    torch.manual_seed(0)
    built_in = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    x, memory = draw(2, 5, 12, seed=1).requires_grad_(), draw(2, 7, 12, seed=2).requires_grad_()
    keep = torch.arange(7)[None] < torch.tensor([[7], [4]])
    weight, bias = built_in.in_proj_weight, built_in.in_proj_bias
    q, k, v = (
        split_heads(side @ weight[i * 12 : i * 12 + 12].T + bias[i * 12 : i * 12 + 12], 3)
        for i, side in enumerate((x, memory, memory))
    )
    context, _ = scaled_dot_product(q, k, v, keep[:, None, None, :])
    ours = built_in.out_proj(merge_heads(context))
    theirs, _ = built_in(x, memory, memory, key_padding_mask=~keep)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)
    leaves = (x, memory, *built_in.parameters())
    upstream = draw(2, 5, 12, seed=3)
    for found, expected in zip(
        torch.autograd.grad(ours, leaves, upstream), torch.autograd.grad(theirs, leaves, upstream), strict=True
    ):
        assert torch.allclose(found, expected, rtol=0, atol=1e-10)
