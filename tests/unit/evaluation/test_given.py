"""What a program may give to the metrics, and the one sentence for what it may not."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from qkv.core.errors import ArgumentError, UsageError
from qkv.evaluation.compare import compare_outputs
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import METRICS, choose_metrics
from qkv.evaluation.tune import tune

LISTS = "must be a list of texts, not"
CHRF = [METRICS["chrf"]]

CALLS: list[Callable[[Any, Any], object]] = [
    lambda outputs, references: METRICS["chrf"].score(outputs, references),
    lambda outputs, references: evaluate_outputs(outputs, EvaluationSet("test", references), CHRF),
    lambda outputs, references: compare_outputs(
        {"one": ["a"], "two": outputs}, EvaluationSet("test", references), CHRF
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=["score", "evaluate_outputs", "compare_outputs"])
@pytest.mark.parametrize(
    ("outputs", "references", "sentence"),
    [
        ("a", [["a"]], f"outputs: {LISTS} one text; put it in a list: [...]"),
        (None, [["a"]], f"outputs: {LISTS} None"),
        ([None], [["a"]], "outputs[0]: must be text (str), not None"),
        ([3], [["a"]], "outputs[0]: must be text (str), not int"),
        (["a"], ["a"], "references[0]: must be a list of references, not one text; write [[answer], ...]"),
        (["a"], [None], f"references[0]: {LISTS} None"),
        (["a"], [[b"a"]], "references[0][0]: must be text (str), not bytes"),
    ],
)
def test_a_wrong_type_is_one_sentence(
    call: Callable[[Any, Any], object], outputs: Any, references: Any, sentence: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(outputs, references)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("call", CALLS, ids=["score", "evaluate_outputs", "compare_outputs"])
def test_each_output_has_its_references(call: Callable[[Any, Any], object]) -> None:
    with pytest.raises(UsageError, match="there are 2 outputs, but references for 1"):
        call(["a", "b"], [["a"]])
    with pytest.raises(UsageError, match=r"references\[0\]: has no reference"):
        call(["a"], [[]])
    with pytest.raises(UsageError, match=r"outputs: there are none|there are 1 outputs, but references for 0"):
        call([], [])


def test_metrics_are_a_list() -> None:
    with pytest.raises(ArgumentError, match="metrics: must be a list of texts, not one text"):
        choose_metrics("bleu")
    given: Any = [CHRF[0]]
    with pytest.raises(ArgumentError, match=r"metrics\[0\]: must be text"):
        choose_metrics(given)


TEST = EvaluationSet("test", [["a"]])
MEASURES: list[Callable[[Any, Any], object]] = [
    lambda test, metrics: evaluate_outputs(["a"], test, metrics),
    lambda test, metrics: compare_outputs({"one": ["a"], "two": ["a"]}, test, metrics),
    lambda test, metrics: tune(cast(Any, None), test, metrics, {}, [{}]),
]


@pytest.mark.parametrize("measure", MEASURES, ids=["evaluate_outputs", "compare_outputs", "tune"])
@pytest.mark.parametrize(
    ("test", "metrics", "sentence"),
    [
        (["a"], CHRF, 'test: must be an EvaluationSet, not list; write EvaluationSet("name", [[answer], ...])'),
        (None, CHRF, "test: must be an EvaluationSet, not None"),
        (TEST, ["exact"], "metrics[0]: must be a Metric, not str; write choose_metrics([name, ...])"),
        (TEST, "exact", "metrics: must be a list of metrics, not one text"),
        (TEST, None, "metrics: must be a list of metrics, not None"),
    ],
)
def test_a_test_set_and_metrics_are_objects(
    measure: Callable[[Any, Any], object], test: Any, metrics: Any, sentence: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        measure(test, metrics)
    assert str(caught.value).startswith(sentence)


def test_systems_have_names() -> None:
    with pytest.raises(ArgumentError, match="systems: must be a dict of names and lists of outputs, not list"):
        compare_outputs(cast(Any, [["a"], ["b"]]), TEST, CHRF)
