"""Bars for the HTML report, drawn as SVG: no script, and readable on a telephone."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 344, 190
LEFT, RIGHT, TOP, BOTTOM = 6, 6, 22, 34
SHARE = 0.8
"""How much of the width of a group its bars take."""
LABELS_UP_TO = 8
"""With more bars than this, the numbers above them would run into each other."""


@dataclass(frozen=True)
class Bar:
    """A rectangle and what to write above it."""

    x: float
    y: float
    width: float
    height: float
    series: int
    value: str
    labelled: bool
    hint: str


@dataclass(frozen=True)
class Tick:
    """A group's name and size, below its bars."""

    x: float
    label: str
    note: str


@dataclass(frozen=True)
class BarChart:
    """Groups of bars, one bar of a group for each series."""

    title: str
    series: list[str]
    bars: list[Bar]
    ticks: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    floor: int = HEIGHT - BOTTOM


def bar_chart(
    title: str, groups: Sequence[tuple[str, str]], series: Sequence[str], values: Sequence[Sequence[float]]
) -> BarChart:
    """`groups` are (label, note); `values` has a row for each group with a number for each series."""
    top = max((value for row in values for value in row), default=0.0) or 1.0
    slot = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    width = slot * SHARE / len(series)
    tall = HEIGHT - TOP - BOTTOM
    labelled = len(groups) * len(series) <= LABELS_UP_TO
    bars, ticks = [], []
    for number, ((label, note), row) in enumerate(zip(groups, values, strict=True)):
        start = LEFT + slot * (number + (1 - SHARE) / 2)
        for place, value in enumerate(row):
            height = tall * max(value, 0.0) / top
            hint = f"{series[place]}, {label}: {value:.2f}"
            x, y = start + place * width, TOP + tall - height
            bars.append(
                Bar(round(x, 1), round(y, 1), round(width, 1), round(height, 1), place, f"{value:.1f}", labelled, hint)
            )
        ticks.append(Tick(round(LEFT + slot * (number + 0.5), 1), label, note))
    return BarChart(title, list(series), bars, ticks)
