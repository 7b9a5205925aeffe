"""Named points: how good against how fast, say. The horizontal axis is logarithmic, the vertical one is not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48
COLOURS = ("#2166ac", "#b2182b", "#1b7837", "#e08214", "#762a83", "#8c510a", "#35978f", "#c51b7d")
STYLE = "text{font:12px sans-serif;fill:#777}.grid{stroke:#7773}"
LINE = 14
"""Height of a name."""
MARKS = 6
"""About so many marks on the vertical axis."""


@dataclass(frozen=True)
class Point:
    """`x` is above 0; points of one `group` have one colour."""

    x: float
    y: float
    group: str
    named: bool = True
    """Whether its name stands beside it; a browser tells it in any case when it is pointed at."""


def draw_points(points: Mapping[str, Point], title: str, x_label: str, y_label: str, higher_is_better: bool) -> str:
    """A standalone SVG; better is higher whatever the metric."""
    across, steps = _across([point.x for point in points.values()])
    up, marks = _up([point.y for point in points.values()], higher_is_better)
    body = [f'<text x="{LEFT}" y="20">{escape(y_label)}</text>']
    body.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>'
    )
    for step in steps:
        x = across(step)
        body.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        body.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{step:g}</text>')
    for mark in marks:
        y = up(mark)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        body.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{mark:g}</text>')
    groups = list(dict.fromkeys(point.group for point in points.values()))
    places = {name: (across(point.x), up(point.y)) for name, point in points.items()}
    colours = {name: COLOURS[groups.index(point.group) % len(COLOURS)] for name, point in points.items()}
    for name, (x, y) in places.items():
        told = f"<title>{escape(name)}</title>"
        body.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colours[name]}">{told}</circle>')
    named = {name: place for name, place in places.items() if points[name].named}
    for name, (label_x, label_y, anchor) in _labels(named).items():
        style = f'text-anchor="{anchor}" style="fill:{colours[name]}"'
        body.append(f'<text x="{label_x}" y="{label_y:.1f}" {style}>{escape(name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"])


class _Scale:
    """From numbers between two ends to pixels, rounded."""

    def __init__(self, low: float, high: float, start: float, end: float, logarithmic: bool) -> None:
        self.low, self.high, self.start, self.end, self.logarithmic = low, high, start, end, logarithmic

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(n) if self.logarithmic else n for n in (self.low, self.high, value))
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), 1)


def _across(values: Sequence[float]) -> tuple[_Scale, list[float]]:
    """With a mark at each power of 2."""
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    high = max(high, low + 1)
    return _Scale(2.0**low, 2.0**high, LEFT, WIDTH - RIGHT, True), [2.0**power for power in range(low, high + 1)]


def _up(values: Sequence[float], higher_is_better: bool) -> tuple[_Scale, list[float]]:
    """With a mark at each multiple of 1, 2 or 5 times a power of 10."""
    spread = max(max(values) - min(values), abs(max(values)) * 1e-3, 1e-6)
    power = 10.0 ** math.floor(math.log10(spread / MARKS))
    step = next(power * times for times in (1, 2, 5, 10) if spread / (power * times) <= MARKS)
    first, last = math.floor(min(values) / step), math.ceil(max(values) / step)
    last = max(last, first + 1)
    ends = (HEIGHT - BOTTOM, TOP) if higher_is_better else (TOP, HEIGHT - BOTTOM)
    marks = [round(number * step, 9) for number in range(first, last + 1)]
    return _Scale(first * step, last * step, *ends, logarithmic=False), marks


def _labels(places: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float, str]]:
    """Beside its point, on the side that has room, moved down where another name stands."""
    found: dict[str, tuple[float, float, str]] = {}
    taken: list[tuple[float, float, float]] = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        width = 7.0 * len(name)
        right = x + 8 + width < WIDTH
        start = x + 8 if right else x - 8 - width
        baseline = y + 4
        while any(
            abs(baseline - other) < LINE and start < end and begin < start + width for begin, end, other in taken
        ):
            baseline += 1
        taken.append((start, start + width, baseline))
        found[name] = (x + 8 if right else x - 8, baseline, "start" if right else "end")
    return found
