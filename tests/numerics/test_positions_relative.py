"""Relative positions: Shaw's vectors, T5's buckets, ALiBi's slopes, each against loops, and the fast twins."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.functional.positions import (
    alibi_bias,
    alibi_slopes,
    bucket_sizes,
    clipped,
    distances,
    shaw_context,
    shaw_scores,
    t5_bias,
    t5_buckets,
)
from qkv.kernels import positions as fast

REACH = 3


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=["one row", "a row each", "queries a row each"])
def row(request: pytest.FixtureRequest) -> Tensor:
    """Positions with gaps; the keys are more than the queries, as with a cache."""
    q_pos, k_pos = torch.tensor([4, 6, 7]), torch.tensor([0, 1, 2, 4, 6, 7, 9])
    if request.param != "one row":
        q_pos = torch.stack([q_pos, q_pos + 2])
    if request.param == "a row each":
        k_pos = torch.stack([k_pos, 2 * k_pos])
    return distances(q_pos, k_pos)


def test_a_distance_is_key_minus_query() -> None:
    assert distances(torch.tensor([3, 5]), torch.tensor([0, 5, 9])).tolist() == [[[-3, 2, 6], [-5, 0, 4]]]
    assert clipped(torch.tensor([[[-9, -2, 0, 2, 9]]]), 2).tolist() == [[[0, 0, 2, 4, 4]]]


@torch.no_grad()
def test_shaw_is_its_formula(row: Tensor) -> None:
    """Σ_j A_ij (v_j + a^V_c) with A of q_i · (k_j + a^K_c) / √d, written as loops."""
    q, a_k, a_v, weights = random(2, 2, 3, 4), random(2 * REACH + 1, 4), random(2 * REACH + 1, 4), random(2, 2, 3, 7)
    c = clipped(row, REACH)
    scores, context = shaw_scores(q, a_k, c), shaw_context(weights, a_v, c)
    rows = c.expand(2, -1, -1).tolist()
    for b in range(2):
        for h in range(2):
            for i in range(3):
                expected = [float(q[b, h, i] @ a_k[rows[b][i][j]]) / math.sqrt(4) for j in range(7)]
                assert scores[b, h, i].tolist() == pytest.approx(expected, abs=1e-12)
                read = sum(weights[b, h, i, j] * a_v[rows[b][i][j]] for j in range(7))
                torch.testing.assert_close(context[b, h, i], read, rtol=0, atol=1e-12)


def test_fast_forms_equal_the_equations(row: Tensor) -> None:
    """Results and gradients."""
    q, weights, table, bias = random(2, 2, 3, 4), random(2, 2, 3, 7), random(2 * REACH + 1, 4), random(32, 2)
    c, bucket = clipped(row, REACH), t5_buckets(row, causal=False)
    forms: list[tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[Tensor, ...], Tensor]] = [
        (shaw_scores, fast.shaw_scores, (q, table), c),
        (shaw_context, fast.shaw_context, (weights, table), c),
        (t5_bias, fast.t5_bias, (bias,), bucket),
    ]
    for plain, kernel, inputs, index in forms:
        ours, theirs = kernel(*inputs, index), plain(*inputs, index)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
        upstream = torch.randn_like(theirs)
        for found, expected in zip(
            torch.autograd.grad(ours, inputs, upstream), torch.autograd.grad(theirs, inputs, upstream), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def buckets_of(distance: list[int], causal: bool, **sizes: int) -> list[int]:
    found: list[int] = t5_buckets(torch.tensor(distance)[None, None], causal, **sizes).flatten().tolist()
    return found


def test_t5_buckets_of_both_directions() -> None:
    distance = [0, -1, -7, -8, -12, -16, -32, -64, -128, 1, 8, 128]
    assert buckets_of(distance, causal=False) == [0, 1, 7, 8, 9, 10, 12, 14, 15, 17, 24, 31]


def test_t5_buckets_of_a_decoder() -> None:
    assert buckets_of([0, 5, -15, -16, -32, -64, -128], causal=True) == [0, 0, 15, 16, 21, 26, 31]


@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (16, 128), (8, 20), (4, 3)])
def test_buckets_grow_with_the_distance_and_all_are_used(buckets: int, longest: int) -> None:
    sizes = bucket_sizes(buckets, longest)
    assert sizes == tuple(sorted(sizes))
    assert sizes[: buckets // 2] == tuple(range(buckets // 2))
    assert sizes[-1] == buckets - 1
    assert buckets_of([-longest, -longest - 1, -9999], causal=True, buckets=buckets, longest=longest) == 3 * [sizes[-1]]


def test_buckets_equal_the_logarithm_where_it_is_not_on_an_edge() -> None:
    exact, steps = 16, 16
    for a, found in enumerate(bucket_sizes(32, 128)):
        if a >= exact:
            value = math.log(a / exact) / math.log(128 / exact) * steps
            if abs(value - round(value)) > 1e-9:
                assert found == min(31, exact + math.floor(value))


def test_alibi_slopes() -> None:
    assert alibi_slopes(1) == [1 / 256]
    assert alibi_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert alibi_slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    assert all(len(set(alibi_slopes(heads))) == heads for heads in range(1, 40))


def test_alibi_bias_falls_with_the_distance_on_both_sides() -> None:
    bias = alibi_bias(distances(torch.tensor([2]), torch.arange(5)), torch.tensor(alibi_slopes(4)))
    assert bias.shape == (1, 4, 1, 5)
    assert bias[0, 0, 0].tolist() == [-0.5, -0.25, 0, -0.25, -0.5]
    assert bias[0, 3, 0, 0] == -2 / 256
