"""qkv tune: the part of the data that is decoded."""

from pathlib import Path

from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.tune import spread_questions


def test_a_part_of_a_test_set_keeps_what_is_known_of_it() -> None:
    files = (Path("dev.tsv"),)
    test = EvaluationSet("dev", [["a"], ["b"], ["c"], ["d"]], ["A", "B", "C", "D"], [0, 1, 2, 3, 3], files, "de")
    part = EvaluationSet("dev", [["a"], ["c"]], ["A", "C"], [0, 1], files, "de")
    assert spread_questions(test, 2) == part
    assert spread_questions(test, 4) is test
