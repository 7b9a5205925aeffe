"""Monotonic attention against the enumeration of all stops, MoChA against loops, lagging against its definition."""

from collections.abc import Sequence
from itertools import combinations_with_replacement

import pytest
import torch
from torch import Tensor

from qkv.functional.monotonic.latency import average_lagging, differentiable_average_lagging, expected_delays
from qkv.functional.monotonic.stops import (
    chunkwise,
    expected_alignment,
    expected_alignment_by_cumprod,
    expected_alignment_by_recursion,
    hard_stops,
)


def energies(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_enumeration(p: Tensor) -> Tensor:
    """[Q, K]: the probability of each sequence of stops is given to the stops in it; some leave the last key."""
    length, keys = p.shape
    alignment = torch.zeros_like(p)
    for reached in range(1, length + 1):
        for stops in combinations_with_replacement(range(keys), reached):
            probability = p.new_ones(())
            begin = 0
            for i, stop in enumerate(stops):
                for j in range(begin, stop):
                    probability = probability * (1 - p[i, j])
                probability = probability * p[i, stop]
                begin = stop
            alignment[reached - 1, stops[-1]] += probability
    return alignment


def test_all_forms_equal_the_enumeration_of_stops() -> None:
    energy = energies(4, 5)
    wanted = by_enumeration(energy.sigmoid())
    for found in (
        expected_alignment_by_recursion(energy.sigmoid()),
        expected_alignment_by_cumprod(energy.sigmoid()),
        expected_alignment(energy),
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)
    assert bool((wanted.sum(-1) < 1).all())


def test_the_forms_have_the_same_gradient() -> None:
    energy = energies(2, 3, 6, 7).requires_grad_()
    upstream = energies(2, 3, 6, 7, seed=1)
    fast, slow = (
        torch.autograd.grad(form, energy, upstream)[0]
        for form in (expected_alignment(energy), expected_alignment_by_recursion(energy.sigmoid()))
    )
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


def test_keys_that_are_not_allowed_get_nothing_and_take_nothing() -> None:
    energy, allowed = energies(2, 1, 4, 6), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None]
    found = expected_alignment(energy, allowed)
    assert not found[1, ..., 4:].any()
    torch.testing.assert_close(found[1:, ..., :4], expected_alignment(energy[1:, ..., :4]), rtol=0, atol=1e-14)


def test_a_long_row_in_single_precision_keeps_its_digits() -> None:
    """Sure stops: the product of the paper underflows and is clipped; logarithms do not."""
    energy = 3 + 2 * energies(30, 400)
    energy[:, :-1] -= 6 * (torch.arange(399) % 13 != 0)
    wanted = expected_alignment_by_recursion(energy.sigmoid())
    safe = expected_alignment(energy.float()).double()
    clipped = expected_alignment_by_cumprod(energy.float().sigmoid()).double()
    assert float((safe - wanted).abs().max()) < 1e-4
    assert float((clipped - wanted).abs().max()) > 0.01


def test_gradients_are_finite_where_probabilities_are_0_or_1() -> None:
    energy = torch.tensor([[-200.0, 200, -200, 50], [200, -200, 200, 50]], requires_grad=True)
    found = expected_alignment(energy)
    torch.testing.assert_close(found, torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0]]), rtol=0, atol=1e-6)
    found[:, 2].sum().backward()
    assert energy.grad is not None
    assert bool(energy.grad.isfinite().all())


@pytest.mark.parametrize("seed", range(5))
def test_sure_stops_are_the_hard_ones(seed: int) -> None:
    stops = energies(3, 2, 6, 9, seed=seed) > 0.5
    hard = hard_stops(stops)
    assert bool((hard.diff(dim=-1) >= 0).all())
    soft = expected_alignment_by_recursion(stops.double())
    assert torch.equal(torch.nn.functional.one_hot(hard, 10)[..., :9].double(), soft)
    # From any place in between they go on as before.
    assert torch.equal(hard_stops(stops[..., 3:, :], hard[..., 2]), hard[..., 3:])


def chunks_by_loops(alignment: Tensor, scores: Tensor, width: int) -> Tensor:
    found = torch.zeros_like(alignment)
    for i, k in torch.cartesian_prod(*map(torch.arange, alignment.shape)).tolist():
        window = range(max(k - width + 1, 0), k + 1)
        total = sum(scores[i, place].exp() for place in window)
        for j in window:
            found[i, j] += alignment[i, k] * scores[i, j].exp() / total
    return found


@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_chunkwise_attention_equals_the_double_loop(width: int) -> None:
    alignment, scores = expected_alignment(energies(4, 6)), energies(4, 6, seed=1)
    found = chunkwise(alignment, scores, width)
    torch.testing.assert_close(found, chunks_by_loops(alignment, scores, width), rtol=0, atol=1e-14)
    torch.testing.assert_close(found.sum(-1), alignment.sum(-1), rtol=0, atol=1e-14)
    if width == 1:
        assert torch.equal(found, alignment)
    torch.testing.assert_close(chunkwise(alignment, scores + 800, width), found, rtol=0, atol=1e-12)


def lagging_by_loops(delays: Sequence[float], src: int, tgt: int) -> tuple[float, float]:
    gamma = tgt / src
    last = next((t for t, delay in enumerate(delays, 1) if delay >= src), len(delays))
    average = sum(delays[t - 1] - (t - 1) / gamma for t in range(1, last + 1)) / last
    spent, total = 0.0, 0.0
    for t, delay in enumerate(delays, 1):
        spent = delay if t == 1 else max(delay, spent + 1 / gamma)
        total += spent - (t - 1) / gamma
    return average, total / len(delays)


@pytest.mark.parametrize(
    ("delays", "src"),
    [([3, 4, 5, 6, 6, 6], 6), ([6, 6, 6], 6), ([1, 2, 3], 3), ([1, 1, 7, 7, 8], 9), ([2, 5, 5, 9], 9)],
)
def test_lagging_equals_its_definition(delays: list[int], src: int) -> None:
    given = torch.tensor(delays, dtype=torch.float64)
    average, differentiable = lagging_by_loops(delays, src, len(delays))
    assert float(average_lagging(given, src)) == pytest.approx(average, abs=1e-12)
    assert float(differentiable_average_lagging(given, src)) == pytest.approx(differentiable, abs=1e-12)


def test_lagging_of_wait_k_is_k_and_of_a_whole_sentence_its_length() -> None:
    k, length = 3, 10
    waiting = torch.arange(length, dtype=torch.float64).add(k).clamp_max(length)
    assert float(average_lagging(waiting, length)) == k
    assert float(differentiable_average_lagging(waiting, length)) == k
    whole = torch.full((length,), float(length))
    assert float(average_lagging(whole, length)) == length
    assert float(differentiable_average_lagging(whole, length)) == length


def test_expected_delays_are_those_of_the_stops_and_have_a_gradient() -> None:
    energy = energies(4, 5).requires_grad_()
    delays = expected_delays(expected_alignment(energy))
    stops = torch.tensor([[0, 1, 0], [0, 0, 1.0]])
    assert expected_delays(stops).tolist() == [2, 3]
    assert torch.autograd.gradcheck(
        lambda e: differentiable_average_lagging(expected_delays(expected_alignment(e)), 5), energy
    )
    assert delays.requires_grad
