"""`qkv.score`: the same numbers as the metrics, from plain lists."""

import pytest

from qkv import score
from qkv.core.errors import ArgumentError, UsageError
from qkv.evaluation.metrics.registry import METRICS

OUTPUTS = ["the cat sat on the mat", "a dog barked"]
ANSWERS = [["the cat sat on a mat"], ["the dog barked", "a dog was barking"]]


def test_scores_are_those_of_the_metrics() -> None:
    found = score(OUTPUTS, ANSWERS, metrics=["bleu", "chrf", "wer"])
    assert found == {name: METRICS[name].score(OUTPUTS, ANSWERS) for name in ("bleu", "chrf", "wer")}


def test_one_answer_may_stand_without_a_list() -> None:
    assert score(OUTPUTS, [ANSWERS[0][0], ANSWERS[1]], ["chrf"]) == score(OUTPUTS, ANSWERS, ["chrf"])


def test_the_references_decide_the_usual_metrics() -> None:
    assert list(score(["cat", "dog"], ["cat", "dug"])) == ["exact", "cer"]


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(ArgumentError, match="references: must be a list"):
        score(["abc"], "abc")
    with pytest.raises(UsageError, match="2 outputs, but references for 1"):
        score(OUTPUTS, ["one"])
    with pytest.raises(UsageError, match="no metric 'blue'"):
        score(OUTPUTS, ANSWERS, ["blue"])
