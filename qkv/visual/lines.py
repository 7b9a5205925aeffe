"""Lines through measured points with both axes logarithmic: what grows as a power of the length is straight."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 680, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 40, 48
LEAST_GAP = 15
"""Between the names at the ends of the lines."""
COLOURS = ("#2166ac", "#b2182b", "#1b7837", "#e08214", "#762a83", "#8c510a", "#35978f", "#c51b7d")
STYLE = "text{font:13px sans-serif;fill:#777}polyline{fill:none;stroke-width:2}.grid{stroke:#7773}"

Points = Sequence[tuple[float, float]]


class _Axis:
    """From the logarithm of a number to pixels, with a mark at each power of `base`."""

    def __init__(self, values: Sequence[float], start: float, end: float, base: int) -> None:
        self.base, self.start, self.end = base, start, end
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(self.low + 1, math.ceil(math.log(max(values), base) - 1e-9))

    def __call__(self, value: float) -> float:
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def marks(self) -> list[float]:
        return [float(self.base) ** power for power in range(self.low, self.high + 1)]


def draw_lines(series: Mapping[str, Points], title: str, x_label: str, y_label: str) -> str:
    """A standalone SVG; each line is a list of (x, y), both above 0, and has its name at its end."""
    points = [point for line in series.values() for point in line]
    x_axis = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, 2)
    y_axis = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, 10)
    body = [*_grid(x_axis, y_axis), f'<text x="{LEFT}" y="20">{escape(y_label)}</text>']
    body.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>'
    )
    ends = {name: y_axis(max(line)[1]) for name, line in series.items()}
    names = _apart(ends)
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_axis(x)},{y_axis(y)}" for x, y in sorted(line))
        body.append(f'<polyline stroke="{colour}" points="{path}"/>')
        style = f'style="fill:{colour}"'
        body.append(f'<text x="{WIDTH - RIGHT + 8}" y="{names[name] + 4:.1f}" {style}>{escape(name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"])


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    lines = []
    for mark in x_axis.marks():
        x = x_axis(mark)
        lines.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        lines.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_short(mark)}</text>')
    for mark in y_axis.marks():
        y = y_axis(mark)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{_short(mark)}</text>')
    return lines


def _short(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _apart(places: Mapping[str, float]) -> dict[str, float]:
    """The same places from top to bottom, moved down where one would be written over another."""
    found: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        last = found[name] = max(place, last + LEAST_GAP)
    return found
