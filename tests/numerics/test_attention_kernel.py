"""The attention kernel against its slow twin: outputs, gradients, rows without keys, dropout."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import attention_weights, scaled_dot_product
from qkv.functional.masks import build_mask, causal
from qkv.kernels.attention import VECTOR, attention
from qkv.kernels.dropout import dropout

# One key, one query, a vector's width and its neighbours, half of it and its neighbours, longer.
HALF = VECTOR // 2
LENGTHS = [(1, 1), (1, 11), (3, HALF), (3, HALF + 1), (5, VECTOR - 1), (5, VECTOR), (4, VECTOR + 1), (1, 20), (40, 50)]


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


def inputs(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return draw(2, 3, queries, 4), draw(2, 3, keys, 4), draw(2, 3, keys, 5), draw(1, 3, queries, keys)


def same(fast: Callable[[], Tensor], slow: Callable[[], Tensor], leaves: tuple[Tensor, ...]) -> None:
    out, expected = fast(), slow()
    assert torch.allclose(out, expected, rtol=0, atol=1e-10)
    upstream = torch.randn_like(out)
    for found, wanted in zip(
        torch.autograd.grad(out, leaves, upstream), torch.autograd.grad(expected, leaves, upstream), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_equals_its_twin(lengths: tuple[int, int], masked: bool, biased: bool) -> None:
    q, k, v, bias = inputs(*lengths)
    mask = torch.rand(2, 1, 1, lengths[1]) < 0.7 if masked else None
    added = bias if biased else None
    leaves = (q, k, v, bias) if biased else (q, k, v)
    same(lambda: attention(q, k, v, mask, added), lambda: scaled_dot_product(q, k, v, mask, added)[0], leaves)


@pytest.mark.parametrize("queries", [1, 9, 40])
def test_equals_its_twin_with_a_causal_mask(queries: int) -> None:
    q, k, v, _ = inputs(queries, queries)
    keep = torch.arange(queries)[None] < torch.tensor([[queries], [max(1, queries - 2)]])
    positions = torch.arange(queries)
    mask = build_mask(causal, positions, positions, keep)
    same(lambda: attention(q, k, v, mask), lambda: scaled_dot_product(q, k, v, mask)[0], (q, k, v))


@pytest.mark.parametrize("keys", [5, VECTOR - 1, VECTOR, 41])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_row_without_a_key_gives_zero_and_no_gradient(keys: int, rate: float) -> None:
    q, k, v, _ = inputs(4, keys)
    mask = torch.ones(2, 1, 4, keys, dtype=torch.bool)
    mask[0, 0, 1] = False
    mask[1] = False
    context = attention(q, k, v, mask, dropout=rate)
    assert not context[0, :, 1].any()
    assert not context[1].any()
    gradients = torch.autograd.grad(context.square().sum(), (q, k, v))
    assert all(torch.isfinite(g).all() for g in gradients)
    assert not any(g[1].any() for g in gradients)
    assert not gradients[0][0, :, 1].any()


@pytest.mark.parametrize("lengths", [(1, 1), (4, 7), (3, VECTOR), (6, 35)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_dropout_acts_on_the_weights_as_drawn_by_the_same_seed(
    lengths: tuple[int, int], masked: bool, biased: bool
) -> None:
    q, k, v, bias = inputs(*lengths)
    mask = torch.rand(2, 1, 1, lengths[1]) < 0.8 if masked else None
    added = bias if biased else None

    def slow() -> Tensor:
        torch.manual_seed(5)
        width = max(lengths[1], VECTOR)
        drawn = dropout(torch.ones(2, 3, lengths[0], width, dtype=torch.float64), 0.4)[..., : lengths[1]]
        return (attention_weights(q, k, mask, added) * drawn) @ v

    def fast() -> Tensor:
        torch.manual_seed(5)
        return attention(q, k, v, mask, added, dropout=0.4)

    same(fast, slow, (q, k, v, bias) if biased else (q, k, v))


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_gradcheck(rate: float) -> None:
    q, k, v, bias = draw(1, 2, 3, 2), draw(1, 2, 4, 2), draw(1, 2, 4, 3), draw(1, 2, 3, 4)

    def run(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        torch.manual_seed(0)
        return attention(q, k, v, torch.tensor([[[[True, True, False, True]]]]), bias, dropout=rate)

    assert torch.autograd.gradcheck(run, (q, k, v, bias))


def test_the_mean_over_dropout_is_the_plain_result_also_for_views_of_split_heads() -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 6, 3, 4, dtype=torch.float64).transpose(1, 2) for _ in range(3))
    many = [x.expand(4000, -1, -1, -1) for x in (q, k, v)]
    mean = attention(many[0], many[1], many[2], dropout=0.2).mean(dim=0, keepdim=True)
    assert torch.allclose(mean, attention(q, k, v), atol=0.06)


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_runs_under_bfloat16_autocast(rate: float) -> None:
    q, k, v = (torch.randn(2, 3, 6, 8, requires_grad=True) for _ in range(3))
    torch.manual_seed(0)
    plain = attention(q, k, v, dropout=rate)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        low = attention(q, k, v, dropout=rate)
    assert low.dtype == torch.bfloat16
    assert torch.allclose(low.float(), plain, atol=0.05)
    low.float().sum().backward()
    assert all(x.grad is not None and torch.isfinite(x.grad).all() for x in (q, k, v))
