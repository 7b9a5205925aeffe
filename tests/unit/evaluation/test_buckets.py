"""Groups by length and by rarity of words."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.evaluation.buckets import length_groups, length_unit, training_frequencies, word_groups


@given(st.lists(st.integers(0, 60), min_size=1, max_size=200), st.integers(1, 9))
def test_groups_by_length_divide_the_outputs(lengths: list[int], most: int) -> None:
    groups = length_groups(lengths, most)
    assert sorted(member for group in groups for member in group.members) == list(range(len(lengths)))
    assert 1 <= len(groups) <= most
    for group in groups:
        assert {lengths[member] for member in group.members} >= {group.low, group.high}
        assert all(group.low <= lengths[member] <= group.high for member in group.members)
    assert all(before.high < after.low for before, after in pairwise(groups))


def test_groups_are_about_equally_large() -> None:
    groups = length_groups(list(range(1, 61)), 6)
    assert [len(group.members) for group in groups] == pytest.approx([10] * 6, abs=1)
    assert [group.label for group in length_groups([3, 3, 3, 7, 8], 2)] == ["3", "7–8"]


def test_length_is_counted_in_words_or_letters() -> None:
    unit = length_unit(["tomato", "read"])
    assert (unit.name, unit.count("tomato")) == ("letters", 6)
    unit = length_unit(["a tomato is red", "read", "to be or not"])
    assert (unit.name, unit.count(" a  tomato is")) == ("words", 3)


def test_word_scores_worked_out_by_hand() -> None:
    """`the` (seen often) is said 3 times and wanted twice; `quokka` (never seen) is wanted and missing."""
    seen = training_frequencies(["the " * 1000 + "cat", "A cat sleeps."])
    assert (seen["the"], seen["cat"], seen["."]) == (1000, 2, 1)
    groups = word_groups(["the the the cat", "."], [["the cat saw the quokka"], ["."]], seen)
    found = {group.label: (group.matched, group.in_outputs, group.in_references) for group in groups}
    assert found == {"0": (0, 0, 2), "1": (1, 1, 1), "2–4": (1, 1, 1), "1000+": (2, 3, 2)}
    often = groups[-1]
    assert often.precision == pytest.approx(100 * 2 / 3)
    assert often.recall == 100
    assert often.f1 == pytest.approx(80)
    assert groups[0].precision == groups[0].recall == groups[0].f1 == 0


def test_the_reference_that_shares_most_words_counts() -> None:
    groups = word_groups(["a b c"], [["x y z", "c b q"]], Counter())
    assert [(group.matched, group.in_references) for group in groups] == [(2, 3)]


@given(st.lists(st.tuples(*[st.text("ab c", max_size=8)] * 2), min_size=1, max_size=9))
def test_word_groups_count_every_word_once(pairs: list[tuple[str, str]]) -> None:
    outputs, answers = [output for output, _ in pairs], [[answer] for _, answer in pairs]
    groups = word_groups(outputs, answers, Counter({"a": 1, "b": 7}))
    assert sum(group.in_outputs for group in groups) == sum(len(output.split()) for output in outputs)
    assert sum(group.in_references for group in groups) == sum(len(answer.split()) for (answer,) in answers)
