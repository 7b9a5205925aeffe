"""The plots of a report: axes, intervals and common scales."""

import pytest

from qkv.evaluation.compare import compare_outputs
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.evaluation.report.charts import Group, Measured, axis_steps, bar_chart
from qkv.evaluation.report.plots import charts_of, comparison_plots, evaluation_plots
from qkv.evaluation.resampling import Interval

WORDS = ["a", "bb", "cc", "ddd", "eeee", "fffff"]
TEST = EvaluationSet("t", [[word] for word in WORDS], WORDS)


def measured(value: float, low: float, high: float) -> Measured:
    return Measured(value, Interval(value, low, high))


@pytest.mark.parametrize(
    ("reach", "steps"),
    [
        (100, [0, 20, 40, 60, 80, 100]),
        (46.8, [0, 10, 20, 30, 40, 50]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (310, [0, 100, 200, 300, 400]),
        (12, [0, 2.5, 5, 7.5, 10, 12.5]),
        (0, [0, 1]),
    ],
)
def test_an_axis_has_round_numbers_and_holds_everything(reach: float, steps: list[float]) -> None:
    assert axis_steps(reach) == pytest.approx(steps)


def test_heights_are_read_off_the_axis() -> None:
    groups = [Group("all", 9, [measured(50, 40, 60)], True), Group("1–3", 5, [measured(100, 80, 100)])]
    chart = bar_chart("BLEU", "length", "BLEU", ["BLEU"], groups)
    ticks = {tick.label: tick.at for tick in chart.y_ticks}
    half, whole = chart.bars
    assert (ticks["0"], ticks["100"]) == (chart.floor, chart.top)
    assert (half.low, half.high) == (ticks["40"], ticks["60"])
    assert (whole.y, whole.low, whole.high) == (ticks["100"], ticks["80"], ticks["100"])
    assert half.y == pytest.approx((ticks["40"] + ticks["60"]) / 2, abs=0.1)
    assert half.y + half.height == pytest.approx(chart.floor)
    assert [(tick.label, tick.note) for tick in chart.x_ticks] == [("all", "n=9"), ("1–3", "n=5")]
    assert len(chart.dividers) == 1
    assert half.x + half.width < chart.dividers[0] < whole.x
    assert half.hint == "BLEU, all: 50.00 (95 %: 40.00 to 60.00)"


def test_nothing_leaves_the_picture() -> None:
    groups = [Group(str(n), n, [measured(n * 9, n * 7, n * 11), measured(0, 0, 0)]) for n in range(9)]
    chart = bar_chart("t", "x", "y", ["a", "b"], groups)
    assert not chart.labelled
    for bar in chart.bars:
        assert chart.left <= bar.x < bar.x + bar.width <= chart.right
        assert chart.top <= bar.high <= bar.y <= bar.low <= chart.floor


def test_plots_of_two_test_sets_have_a_common_scale() -> None:
    metrics = choose_metrics(["exact", "cer"])
    good, bad = (evaluate_outputs(outputs, TEST, metrics) for outputs in (WORDS, ["q"] * 6))
    pages = charts_of([evaluation_plots(good), evaluation_plots(bad)])
    for mine, theirs in zip(*pages, strict=True):
        assert mine.title == theirs.title
        assert mine.y_ticks == theirs.y_ticks
    exact, cer = pages[0]
    assert exact.y_label == "exact match (higher is better)"
    assert cer.y_label == "CER (lower is better)"
    assert cer.x_label == "length: letters in the source"
    assert cer.y_ticks[-1].label == "100"


def test_systems_stand_beside_each_other_with_their_intervals() -> None:
    systems = {"one": WORDS, "two": ["a", "x", "cc", "y", "eeee", "z"]}
    found = compare_outputs(systems, TEST, choose_metrics(["exact"]))
    ((chart,),) = charts_of([comparison_plots(found)])
    assert chart.series == ["one", "two"]
    assert len(chart.bars) == 2 * (1 + len(found.by_length))
    whole = chart.bars[1]
    score = found.scores["two"][0]
    assert whole.hint == f"two, all: 50.00 (95 %: {score.interval.low:.2f} to {score.interval.high:.2f})"
    assert whole.high < whole.y < whole.low
