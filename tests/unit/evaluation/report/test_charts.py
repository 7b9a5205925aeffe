"""The plots of a report: axes, intervals and common scales."""

import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from qkv.evaluation.compare import compare_outputs
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.evaluation.report.charts import (
    HEIGHT,
    WIDTH,
    BarGroup,
    Measured,
    Plot,
    bar_chart,
    bar_charts,
    comparison_plots,
    evaluation_plots,
    paint_bars,
)
from qkv.evaluation.report.page import evaluation_report
from qkv.evaluation.resampling import Interval

WORDS = ["a", "bb", "cc", "ddd", "eeee", "fffff"]
TEST = EvaluationSet("t", [[word] for word in WORDS], WORDS)


def measured(value: float, low: float, high: float) -> Measured:
    return Measured(value, Interval(value, low, high))


def painted(plot: Plot) -> Any:
    """The axes with everything laid out."""
    figure = Figure((WIDTH / 72, HEIGHT / 72), 72, layout="constrained")
    axes = figure.add_subplot()
    paint_bars(axes, plot, plot.largest)
    figure.draw_without_rendering()
    return axes


def tips(svg: str) -> list[str | None]:
    return [title.text for title in ElementTree.fromstring(svg).iter("title")][1:]


def tick_labels(svg: str) -> list[str]:
    """Of the vertical axis, from 0 up."""
    root = ElementTree.fromstring(svg)
    (axis,) = (group for group in root.iter("g") if group.get("id") == "matplotlib.axis_2")
    return [str(text.text) for text in axis.iter("text")][:-1]


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (100, [0, 20, 40, 60, 80, 100]),
        (46.8, [0, 10, 20, 30, 40, 50]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (310, [0, 100, 200, 300, 400]),
        (12, [0, 2.5, 5, 7.5, 10, 12.5]),
        (0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_an_axis_has_round_numbers_and_holds_everything(largest: float, ticks: list[float]) -> None:
    axes = painted(Plot("t", "x", "y", ["a"], [BarGroup("g", 1, [measured(largest, largest, largest)])]))
    assert axes.get_yticks().tolist() == pytest.approx(ticks)
    assert axes.get_ylim() == pytest.approx((0, ticks[-1]))


def test_heights_are_read_off_the_axis() -> None:
    groups = [BarGroup("all", 9, [measured(50, 40, 60)], True), BarGroup("1–3", 5, [measured(100, 80, 100)])]
    plot = Plot("BLEU", "length", "BLEU", ["BLEU"], groups)
    axes = painted(plot)
    half, whole = axes.patches
    first, divider, second = (line.get_xydata().tolist() for line in axes.lines)
    assert (half.get_y(), half.get_height(), whole.get_y(), whole.get_height()) == (0, 50, 0, 100)
    assert [y for _, y in first] == [40, 60]
    assert [y for _, y in second] == [80, 100]
    assert first[0][0] == half.get_x() + half.get_width() / 2
    assert half.get_x() + half.get_width() < divider[0][0] < whole.get_x()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["all\nn=9", "1–3\nn=5"]
    assert [label.get_text() for label in axes.texts] == ["50.0", "100.0"]
    assert tips(bar_chart(plot, plot.largest).svg)[0] == "BLEU, all: 50.00 (95 %: 40.00 to 60.00)"


def test_nothing_leaves_the_picture() -> None:
    groups = [BarGroup(str(n), n, [measured(n * 9, n * 7, n * 11), measured(0, 0, 0)]) for n in range(9)]
    axes = painted(Plot("t", "x", "y", ["a", "b"], groups))
    assert not axes.texts, "so many numbers would run into each other"
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    for bar in axes.patches:
        assert left <= bar.get_x() < bar.get_x() + bar.get_width() <= right
        assert bottom <= bar.get_height() <= top
    bounds = axes.get_tightbbox()
    assert 0 <= bounds.x0 < bounds.x1 <= WIDTH
    assert 0 <= bounds.y0 < bounds.y1 <= HEIGHT


def test_plots_of_two_test_sets_have_a_common_scale() -> None:
    metrics = choose_metrics(["exact", "cer"])
    good, bad = (evaluate_outputs(outputs, TEST, metrics) for outputs in (WORDS, ["q"] * 6))
    plots = evaluation_plots(good), evaluation_plots(bad)
    pages = bar_charts(plots)
    for mine, theirs in zip(*pages, strict=True):
        assert mine.title == theirs.title
        assert tick_labels(mine.svg) == tick_labels(theirs.svg)
    exact, cer = plots[0]
    assert exact.y_label == "exact match (higher is better)"
    assert cer.y_label == "CER (lower is better)"
    assert cer.x_label == "length: letters in the source"
    assert tick_labels(pages[0][1].svg)[-1] == "100"


def test_systems_stand_beside_each_other_with_their_intervals() -> None:
    systems = {"one": WORDS, "two": ["a", "x", "cc", "y", "eeee", "z"]}
    found = compare_outputs(systems, TEST, choose_metrics(["exact"]))
    (plot,) = comparison_plots(found)
    ((chart,),) = bar_charts([[plot]])
    assert chart.series == ["one", "two"]
    assert len(tips(chart.svg)) == 2 * (1 + len(found.by_length))
    interval = found.scores["two"][0].interval
    assert tips(chart.svg)[1] == f"two, all: 50.00 (95 %: {interval.low:.2f} to {interval.high:.2f})"


def test_the_name_of_a_system_is_text_and_no_markup() -> None:
    name = '"><script>$x$</script>&'
    plot = Plot("t", "x", "y", [name], [BarGroup("all", 9, [measured(50, 40, 60)])])
    svg = bar_chart(plot, plot.largest).svg
    assert "<script" not in svg
    assert tips(svg) == [f"{name}, all: 50.00 (95 %: 40.00 to 60.00)"]


def test_without_matplotlib_a_report_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate_outputs(WORDS, TEST, choose_metrics(["exact"]))
    assert "<svg" in evaluation_report(found, "t")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = evaluation_report(found, "t")
    assert "<svg" not in without
    assert "qkv[visual]" in without
