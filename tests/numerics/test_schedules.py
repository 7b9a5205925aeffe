"""Learning rates: the paper's schedule, its twin by peak, and the shapes of the others."""

import pytest

from qkv.functional.schedules import constant, cosine, inverse_sqrt, linear, noam, stable_then_linear, warm_up


@pytest.mark.parametrize(("d_model", "warmup", "factor"), [(128, 2000, 1.0), (512, 4000, 2.0), (64, 1, 0.5)])
def test_noam_is_inverse_sqrt_with_the_right_peak(d_model: int, warmup: int, factor: float) -> None:
    peak = factor / (d_model * warmup) ** 0.5
    for update in (*range(1, 50), warmup - 1 or 1, warmup, warmup + 1, 10 * warmup, 100_000):
        expected = factor * d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)
        assert noam(update, d_model, warmup, factor) == pytest.approx(expected, rel=1e-12)
        assert inverse_sqrt(update, peak, warmup) == pytest.approx(expected, rel=1e-12)


def test_the_number_in_the_literature() -> None:
    assert noam(2000, 128, 2000) == pytest.approx(1.976e-3, rel=1e-3)


def test_the_peak_is_at_the_end_of_the_warm_up() -> None:
    rates = [noam(n, 128, 300) for n in range(1, 1000)]
    assert rates.index(max(rates)) + 1 == 300


@pytest.mark.parametrize("warmup", [0, 1, 400])
def test_the_first_update_moves_and_no_warm_up_starts_at_the_peak(warmup: int) -> None:
    first = [noam(1, 128, warmup), inverse_sqrt(1, 0.1, warmup), constant(1, 0.1, warmup), warm_up(1, warmup)]
    assert all(rate > 0 for rate in first)
    if warmup == 0:
        assert first[1:] == pytest.approx([0.1, 0.1, 1.0])


def test_inverse_sqrt_starts_where_it_is_told() -> None:
    assert inverse_sqrt(0, 1.0, 10, start=0.2) == pytest.approx(0.2)
    assert inverse_sqrt(5, 1.0, 10, start=0.2) == pytest.approx(0.6)
    assert inverse_sqrt(40, 1.0, 10, start=0.2) == pytest.approx(0.5)


def test_constant_rises_and_stays() -> None:
    assert [constant(n, 2.0, 4) for n in (1, 2, 4, 5, 999)] == [0.5, 1.0, 2.0, 2.0, 2.0]


def test_linear_and_cosine_go_from_peak_to_floor() -> None:
    for schedule in (linear, cosine):
        assert schedule(0.0, 3.0, 1.0) == pytest.approx(3.0)
        assert schedule(0.5, 3.0, 1.0) == pytest.approx(2.0)
        assert schedule(1.0, 3.0, 1.0) == pytest.approx(1.0)
        assert schedule(1.7, 3.0, 1.0) == pytest.approx(1.0)
    assert linear(0.25, 4.0) == pytest.approx(3.0)
    assert cosine(0.25, 4.0) == pytest.approx(2 + 2**0.5)


def test_stable_then_linear_falls_only_at_the_end() -> None:
    rates = [stable_then_linear(fraction, 3.0, 0.25, 1.0) for fraction in (0.0, 0.5, 0.75, 0.875, 1.0, 1.2)]
    assert rates == pytest.approx([3.0, 3.0, 3.0, 2.0, 1.0, 1.0])
    assert [stable_then_linear(f / 4, 3.0, 1.0) for f in range(5)] == pytest.approx(
        [linear(f / 4, 3.0) for f in range(5)]
    )
