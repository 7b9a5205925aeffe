"""Masks against their definitions, with a cache's offset, and inside attention: the future has no influence."""

import pytest
import torch

from qkv.functional.attention import scaled_dot_product
from qkv.functional.masks import both, build_mask, causal, either, is_global, same_segment, within


def table(mask: torch.Tensor | None) -> list[list[int]]:
    assert mask is not None
    assert mask.shape[:2] == (1, 1)
    return mask[0, 0].int().tolist()


def test_causal_sees_itself_and_the_past() -> None:
    positions = torch.arange(3)
    assert table(build_mask(causal, positions, positions)) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("cached", [0, 1, 4])
def test_a_cache_shifts_the_queries_and_nothing_else(cached: int) -> None:
    everything = torch.arange(5)
    full = build_mask(causal, everything, everything)
    late = build_mask(causal, everything[cached:], everything)
    assert full is not None
    assert late is not None
    assert torch.equal(late, full[:, :, cached:])


@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 2), (2, None), (9, 9)])
def test_within_is_a_band(left: int, right: int | None) -> None:
    mask = table(build_mask(within(left, right), torch.arange(5), torch.arange(5)))
    reach = left if right is None else right
    assert mask == [[int(-left <= j - i <= reach) for j in range(5)] for i in range(5)]


def test_causal_window_with_global_first_position() -> None:
    predicate = both(causal, either(within(1), is_global(torch.tensor([0]))))
    assert table(build_mask(predicate, torch.arange(4), torch.arange(4))) == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 0, 1, 1],
    ]


def test_packed_sentences_do_not_see_each_other() -> None:
    segment = torch.tensor([[0, 0, 1, 1, 1]])
    mask = build_mask(same_segment(segment, segment), torch.arange(5), torch.arange(5))
    assert table(mask) == [[int((i < 2) == (j < 2)) for j in range(5)] for i in range(5)]


def test_positions_may_differ_by_row() -> None:
    q_pos, k_pos = torch.tensor([[0, 1], [2, 3]]), torch.arange(3)
    mask = build_mask(causal, q_pos, k_pos)
    assert mask is not None
    assert mask.shape == (2, 1, 2, 3)
    assert mask.int().tolist() == [[[[1, 0, 0], [1, 1, 0]]], [[[1, 1, 1], [1, 1, 1]]]]


def test_padding_is_and_ed_and_alone_needs_no_query_axis() -> None:
    keep = torch.tensor([[True, True, False], [True, False, False]])
    positions = torch.arange(3)
    with_causal = build_mask(causal, positions, positions, keep)
    assert with_causal is not None
    assert with_causal.shape == (2, 1, 3, 3)
    assert with_causal[1, 0].int().tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    alone = build_mask(None, positions, positions, keep)
    assert alone is not None
    assert alone.shape == (2, 1, 1, 3)
    assert build_mask(None, positions, positions) is None


def test_the_future_has_no_influence() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64)
    mask = build_mask(causal, torch.arange(5), torch.arange(5))

    def layer(x: torch.Tensor) -> torch.Tensor:
        heads = x[None, None]
        return scaled_dot_product(heads, heads, heads, mask)[0][0, 0]

    jacobian = torch.autograd.functional.jacobian(layer, x)
    assert isinstance(jacobian, torch.Tensor)
    influence = jacobian.abs().sum(dim=(1, 3))
    assert torch.equal(influence != 0, torch.ones(5, 5).tril().bool())


def test_a_sentence_of_pads_gives_zero_and_does_not_poison_its_batch() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 1, 4, 3, dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([[True] * 4, [False] * 4])
    mask = build_mask(causal, torch.arange(4), torch.arange(4), keep)
    context, _ = scaled_dot_product(x, x, x, mask)
    alone, _ = scaled_dot_product(x[:1], x[:1], x[:1], build_mask(causal, torch.arange(4), torch.arange(4)))
    assert not context[1].any()
    assert torch.allclose(context[:1], alone, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(context.sum(), x)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("left", "right", "layers"), [(1, 1, 1), (1, 0, 3), (2, 1, 2)])
def test_windows_reach_as_far_as_the_layers_carry_them(left: int, right: int, layers: int) -> None:
    torch.manual_seed(0)
    length = 9
    mask = build_mask(within(left, right), torch.arange(length), torch.arange(length))

    def stack(x: torch.Tensor) -> torch.Tensor:
        heads = x[None, None]
        for _ in range(layers):
            heads = scaled_dot_product(heads, heads, heads, mask)[0]
        return heads[0, 0]

    jacobian = torch.autograd.functional.jacobian(stack, torch.randn(length, 3, dtype=torch.float64))
    assert isinstance(jacobian, torch.Tensor)
    offset = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    reached = (-layers * left <= offset) & (offset <= layers * right)
    assert torch.equal(jacobian.abs().sum(dim=(1, 3)) != 0, reached)
