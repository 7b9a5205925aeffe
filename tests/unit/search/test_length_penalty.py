"""Length penalties against their formulas."""

import pytest

from qkv.search.length_penalty import Gnmt, NoLengthPenalty, Power, length_penalties


def test_power() -> None:
    assert Power().at(7) == 7
    assert Power(alpha=0.5).at(9) == pytest.approx(3)
    assert Power(alpha=0).at(9) == 1
    assert Power(alpha=-1).at(4) == pytest.approx(0.25)


def test_gnmt() -> None:
    assert Gnmt().at(10) == pytest.approx(1.733, abs=1e-3)
    assert Gnmt().at(1) == 1
    assert Gnmt(alpha=1).at(7) == pytest.approx(2)


def test_none() -> None:
    assert {NoLengthPenalty().at(length) for length in range(9)} == {1.0}


@pytest.mark.parametrize("kind", length_penalties.names())
def test_it_never_divides_by_nothing_and_is_monotone(kind: str) -> None:
    values = [length_penalties[kind]().at(length) for length in range(30)]
    assert min(values) > 0
    assert values == sorted(values)
