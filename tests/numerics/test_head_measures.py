"""Measures of heads against loops in float64 and against what their definitions imply."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.heads.measures import classical_mds, jensen_shannon, row_entropy, smoothed_rows
from qkv.visual.heads.distances import divergences


def rows(count: int, keys: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, keys, generator=generator, dtype=torch.float64).log().mul(3).softmax(-1)


def slow_divergence(p: Tensor, q: Tensor) -> float:
    total = 0.0
    for one, other in zip(p.tolist(), q.tolist(), strict=True):
        middle = (one + other) / 2
        total += 0.5 * one * math.log(one / middle) + 0.5 * other * math.log(other / middle)
    return total


def test_entropy_of_one_key_is_0_and_of_n_equal_ones_ln_n() -> None:
    assert row_entropy(torch.tensor([0.0, 1.0, 0.0])).item() == 0
    assert row_entropy(torch.full((5,), 0.2, dtype=torch.float64)).item() == pytest.approx(math.log(5))


def test_jensen_shannon_is_its_definition() -> None:
    p, q = rows(6, 9), rows(6, 9, seed=1)
    for one, other, found in zip(p, q, jensen_shannon(p, q).tolist(), strict=True):
        assert found == pytest.approx(slow_divergence(one, other), abs=1e-14)
    torch.testing.assert_close(jensen_shannon(p, q), jensen_shannon(q, p), atol=0, rtol=0)
    assert not jensen_shannon(p, p).any()


def test_jensen_shannon_is_ln_2_for_rows_without_a_common_key() -> None:
    p, q = torch.eye(2, dtype=torch.float64)
    assert jensen_shannon(p, q).item() == pytest.approx(math.log(2))


def test_smoothed_rows_still_sum_to_one_and_do_not_reach_masked_keys() -> None:
    visible = torch.tensor([[True, True, False], [True, True, True]])
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
    found = smoothed_rows(weights, visible)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, dtype=torch.float64))
    assert found[0].tolist() == pytest.approx([0.9995, 0.0005, 0.0])


def test_divergences_of_all_heads_are_the_sums_over_queries() -> None:
    every = torch.stack([rows(7, 5, seed) for seed in (0, 1, 0)], dim=1)
    found = divergences(every)
    for i in range(3):
        for j in range(3):
            slow = sum(slow_divergence(every[query, i], every[query, j]) for query in range(7))
            assert float(found[i, j]) == pytest.approx(slow, abs=1e-12)
    assert found[0, 2] == 0, "equal heads coincide"


def test_scaling_recovers_points_of_a_plane_up_to_rotation_and_reflection() -> None:
    points = torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    distances = torch.cdist(points, points)
    found = classical_mds(distances)
    torch.testing.assert_close(torch.cdist(found, found), distances)
    assert found[found.abs().argmax(0), [0, 1]].gt(0).all(), "the signs of the axes are fixed"


def test_scaling_of_one_point_or_equal_points_is_the_origin() -> None:
    assert classical_mds(torch.zeros(1, 1)).tolist() == [[0, 0]]
    assert not classical_mds(torch.zeros(3, 3)).any()
