"""Bars with intervals for the HTML report, drawn as SVG: no script, and readable on a telephone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.evaluation.resampling import Interval

WIDTH, HEIGHT = 380, 240
LEFT, RIGHT, TOP, BOTTOM = 44, 6, 18, 56
SHARE = 0.8
"""How much of the width of a group its bars take."""
LABELS_UP_TO = 8
"""With more bars than this, the numbers above them would run into each other."""
MOST_STEPS = 5
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Measured:
    """A number, and where 95 of 100 test sets of this kind would have it."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class Group:
    """Bars that stand together: what is written below them, and a number for each series."""

    label: str
    size: int
    measured: list[Measured]
    is_whole: bool = False
    """All outputs together; a line divides them from the groups of some."""


@dataclass(frozen=True)
class Bar:
    """A rectangle with its interval and what to write above it."""

    x: float
    y: float
    width: float
    height: float
    low: float
    high: float
    series: int
    value: str
    hint: str

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its place, and what is written there."""

    at: float
    label: str
    note: str = ""


@dataclass(frozen=True)
class BarChart:
    """Groups of bars, one bar of a group for each series, between two axes."""

    title: str
    x_label: str
    y_label: str
    series: list[str]
    bars: list[Bar]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    dividers: list[float]
    labelled: bool
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    floor: int = HEIGHT - BOTTOM


def bar_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[str],
    groups: Sequence[Group],
    reach: float | None = None,
) -> BarChart:
    """Every bar begins at 0. `reach` is the largest number that the axis must hold, for charts of a common scale."""
    steps = axis_steps(largest(groups) if reach is None else reach)
    slot = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    width = slot * SHARE / len(series)
    bars = []
    for number, group in enumerate(groups):
        start = LEFT + slot * (number + (1 - SHARE) / 2)
        for place, (name, measured) in enumerate(zip(series, group.measured, strict=True)):
            bars.append(_bar(measured, start + place * width, width, steps[-1], place, f"{name}, {group.label}"))
    return BarChart(
        title=title,
        x_label=x_label,
        y_label=y_label,
        series=list(series),
        bars=bars,
        x_ticks=[
            Tick(round(LEFT + slot * (number + 0.5), 1), group.label, f"n={group.size:,}")
            for number, group in enumerate(groups)
        ],
        y_ticks=[Tick(_height(step, steps[-1]), f"{step:g}") for step in steps],
        dividers=[round(LEFT + slot * (number + 1), 1) for number, group in enumerate(groups) if group.is_whole],
        labelled=len(bars) <= LABELS_UP_TO,
    )


def largest(groups: Sequence[Group]) -> float:
    """The largest number of a chart, intervals included."""
    return max((max(one.value, one.interval.high) for group in groups for one in group.measured), default=0.0)


def axis_steps(reach: float) -> list[float]:
    """Round numbers from 0 to the first one that is not below `reach`."""
    if reach <= 0:
        return [0.0, 1.0]
    scale = 10.0 ** math.floor(math.log10(reach / MOST_STEPS))
    step = next(factor * scale for factor in STEPS if factor * scale * MOST_STEPS >= reach * (1 - 1e-9))
    return [number * step for number in range(math.ceil(reach / step - 1e-9) + 1)]


def _bar(measured: Measured, x: float, width: float, top: float, series: int, name: str) -> Bar:
    y = _height(measured.value, top)
    low, high = measured.interval.low, measured.interval.high
    return Bar(
        x=round(x, 1),
        y=y,
        width=round(width, 1),
        height=round(HEIGHT - BOTTOM - y, 1),
        low=_height(low, top),
        high=_height(high, top),
        series=series,
        value=f"{measured.value:.1f}",
        hint=f"{name}: {measured.value:.2f} (95 %: {low:.2f} to {high:.2f})",
    )


def _height(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / top, 1)
