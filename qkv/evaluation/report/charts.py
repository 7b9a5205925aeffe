"""The charts of the HTML report: bars with confidence intervals, for every metric and by length and frequency."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qkv.core.figures import FAINT, SERIES, TEXT, TIP, chart
from qkv.evaluation.resampling import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from qkv.evaluation.compare import Comparison
from qkv.evaluation.evaluate import Evaluation
from qkv.evaluation.metrics.base import Metric

WIDTH, HEIGHT = 380, 250
GROUP_WIDTH = 0.8
"""The share of a group's width that its bars take."""
MAX_LABELLED = 8
"""With more bars than this, the numbers above them would run into each other."""
MAX_TICKS = 5


@dataclass(frozen=True)
class Measured:
    """A score with its 95 % confidence interval."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class BarGroup:
    """A group of bars: the label below them, and a score for each series."""

    label: str
    size: int
    measured: list[Measured]
    is_whole: bool = False
    """All outputs together; a line divides them from the groups of some."""


@dataclass(frozen=True)
class Plot:
    """What a chart shows: groups of bars, one bar of a group for each series."""

    title: str
    x_label: str
    y_label: str
    series: list[str]
    groups: list[BarGroup]

    @property
    def largest(self) -> float:
        """The largest number, intervals included."""
        every = (one for group in self.groups for one in group.measured)
        return max((max(one.value, one.interval.high) for one in every), default=0.0)


@dataclass(frozen=True)
class BarChart:
    """A chart as SVG; the page writes its title and its legend."""

    title: str
    series: list[str]
    svg: str


def bar_charts(pages: Sequence[Sequence[Plot]]) -> list[list[BarChart]]:
    """The charts of several test sets; those with the same title have the same scale."""
    largest: dict[str, float] = {}
    for plot in (plot for page in pages for plot in page):
        largest[plot.title] = max(largest.get(plot.title, 0.0), plot.largest)
    return [[bar_chart(plot, largest[plot.title]) for plot in page] for page in pages]


def bar_chart(plot: Plot, largest: float) -> BarChart:
    svg = chart(lambda axes: paint_bars(axes, plot, largest), WIDTH, HEIGHT, plot.title)
    return BarChart(plot.title, plot.series, svg)


def paint_bars(axes: "Axes", plot: Plot, largest: float) -> None:
    """Every bar begins at 0, and the axis ends at the first tick that is not below `largest`."""
    from matplotlib.ticker import MaxNLocator

    width = GROUP_WIDTH / len(plot.series)
    labelled = len(plot.groups) * len(plot.series) <= MAX_LABELLED
    for number, group in enumerate(plot.groups):
        for place, (name, one) in enumerate(zip(plot.series, group.measured, strict=True)):
            x = number - GROUP_WIDTH / 2 + (place + 0.5) * width
            low, high = one.interval.low, one.interval.high
            (bar,) = axes.bar(x, max(one.value, 0.0), width, color=SERIES[place % len(SERIES)], alpha=0.85)
            bar.set_gid(f"{TIP}{name}, {group.label}: {one.value:.2f} (95 %: {low:.2f} to {high:.2f})")
            axes.plot([x, x], [low, high], color=TEXT, linewidth=1.1, marker="_", markersize=5)
            if labelled:
                axes.annotate(f"{one.value:.1f}", (x, high), (0, 3), textcoords="offset points", ha="center")
        if group.is_whole:
            axes.axvline(number + 0.5, color=FAINT, linewidth=0.8, linestyle="dashed")
    ticks = MaxNLocator(MAX_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, largest if largest > 0 else 1.0)
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label, xlim=(-0.5, len(plot.groups) - 0.5), ylim=(0.0, ticks[-1]))
    axes.set_yticks(ticks)
    axes.set_xticks(range(len(plot.groups)), [f"{group.label}\nn={group.size:,}" for group in plot.groups])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y")


ALL = "all"


def evaluation_plots(found: Evaluation) -> list[Plot]:
    """A plot for each metric, and one of words if their frequencies are known."""
    plots = []
    for place, score in enumerate(found.scores):
        groups = [BarGroup(ALL, len(found.outputs), [Measured(score.value, score.interval)], is_whole=True)]
        for part in found.by_length:
            measured = [Measured(part.values[place], part.intervals[place])]
            groups.append(BarGroup(part.group.label, len(part.group.members), measured))
        plots.append(_by_length(score.metric, found.unit, [score.metric.title], groups))
    if found.by_frequency:
        words = [
            BarGroup(group.label, group.in_references, [Measured(group.f1, group.f1_interval)])
            for group in found.by_frequency
        ]
        title = "F1 of words by frequency"
        plots.append(Plot(title, "times in the training data", "F1 (higher is better)", ["F1"], words))
    return plots


def comparison_plots(found: Comparison) -> list[Plot]:
    """A plot for each metric, with a series for each system."""
    plots = []
    for place, metric in enumerate(found.metrics):
        scores = [own[place] for own in found.scores.values()]
        groups = [
            BarGroup(ALL, len(found.test), [Measured(score.value, score.interval) for score in scores], is_whole=True)
        ]
        for group, systems in found.by_length:
            measured = [Measured(own.values[place], own.intervals[place]) for own in systems.values()]
            groups.append(BarGroup(group.label, len(group.members), measured))
        plots.append(_by_length(metric, found.unit, list(found.systems), groups))
    return plots


def _by_length(metric: Metric, unit: str, series: list[str], groups: list[BarGroup]) -> Plot:
    better = "higher" if metric.higher_is_better else "lower"
    return Plot(f"{metric.title} by length", f"length: {unit}", f"{metric.title} ({better} is better)", series, groups)
