"""Accuracy with its interval, and rows of what is mistaken for what."""

import pytest

from qkv.evaluation.classifying.answers import accuracy_of, answer_row
from qkv.evaluation.metrics.registry import METRICS
from qkv.evaluation.resampling import intervals


def test_the_interval_is_that_of_exact_match() -> None:
    said = ["a"] * 40 + ["b"] * 10
    (expected,) = intervals([METRICS["exact"]], [METRICS["exact"].counts(said, [["a"]] * 50)])
    found = accuracy_of([1] * 40 + [0] * 10, [1] * 50)
    assert found.value == 80
    assert found.interval == expected
    assert found.as_dict() == {"accuracy": 80, "low": expected.low, "high": expected.high}
    assert str(found) == f"80.00 ± {expected.half_width:.2f} % right"


def test_whole_examples_are_drawn() -> None:
    """Ten texts with a hundred words each say less than a thousand words."""
    assert accuracy_of([100, 0] * 5, [100] * 10).value == 50
    assert accuracy_of([100, 0] * 5, [100] * 10).interval == accuracy_of([1, 0] * 5, [1] * 10).interval


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ({"cat": 6, "dog": 3, "bird": 1}, ["cat", "10", "60.0", "dog (3)"]),
        ({"cat": 1200}, ["cat", "1,200", "100.0", ""]),
        ({"dog": 2, "bird": 2}, ["cat", "4", "0.0", "dog (2)"]),
        ({"dog": 0, "cat": 0}, ["cat", "0", "", ""]),
    ],
)
def test_a_row(said: dict[str, int], row: list[str]) -> None:
    assert answer_row("cat", said) == row
