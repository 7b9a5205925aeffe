"""Charts of measurements, for reports of benchmarks: lines and named points, as standalone SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qkv.core.figures import SERIES, TIP, standalone_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = 680, 360
POINTS = 720, 420
"""Width and height in pixels."""
RADIUS = 4
"""Of a point."""

Line = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Point:
    """`x` is above 0; points of one `group` have one colour."""

    x: float
    y: float
    group: str
    named: bool = True
    """Whether its name is written beside it; pointing at it shows the name in any case."""


def draw_lines(series: Mapping[str, Line], title: str, x_label: str, y_label: str) -> str:
    """Lines through points (x, y), both above 0. Both axes are logarithmic: a power of x is a straight line."""

    def paint(axes: "Axes") -> None:
        paint_lines(axes, series)
        axes.set(xlabel=x_label, ylabel=y_label)

    return standalone_chart(paint, *LINES, title)


def paint_lines(axes: "Axes", series: Mapping[str, Line]) -> None:
    """The legend lists the lines in the order of their right ends."""
    for number, (name, line) in enumerate(series.items()):
        # One point alone is no line.
        marker = "o" if len(line) == 1 else ""
        axes.plot(*zip(*sorted(line), strict=True), label=name, color=SERIES[number % len(SERIES)], marker=marker)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.minorticks_off()
    axes.grid()
    ends = {name: max(line)[1] for name, line in series.items()}
    lines = sorted(axes.lines, key=lambda line: -ends[str(line.get_label())])
    axes.legend(handles=lines, loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor="linecolor")


def draw_points(points: Mapping[str, Point], title: str, x_label: str, y_label: str, higher_is_better: bool) -> str:
    """Named points, such as quality against speed. The x axis is logarithmic, and better is always higher."""

    def paint(axes: "Axes") -> None:
        axes.set(xlabel=x_label, ylabel=y_label)
        paint_points(axes, points, higher_is_better)

    return standalone_chart(paint, *POINTS, title)


def paint_points(axes: "Axes", points: Mapping[str, Point], higher_is_better: bool) -> None:
    """Names are written beside their points, moved where another name is in the way."""
    groups = list(dict.fromkeys(point.group for point in points.values()))
    colours = {name: SERIES[groups.index(point.group) % len(SERIES)] for name, point in points.items()}
    for name, point in points.items():
        (marker,) = axes.plot(point.x, point.y, "o", color=colours[name], clip_on=False)
        marker.set_gid(TIP + name)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.minorticks_off()
    axes.grid()
    if not higher_is_better:
        axes.invert_yaxis()
    axes.margins(0.08)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout must be final before names are placed
    _write_names(axes, {name: point for name, point in points.items() if point.named}, colours)


def _write_names(axes: "Axes", points: Mapping[str, Point], colours: Mapping[str, str]) -> None:
    """From top to bottom: to the right of a point where the chart has room, and below what is there already."""
    from matplotlib.transforms import Bbox

    pixels = {name: axes.transData.transform((point.x, point.y)) for name, point in points.items()}
    taken = [Bbox.from_bounds(x - RADIUS, y - RADIUS, 2 * RADIUS, 2 * RADIUS) for x, y in pixels.values()]
    for name in sorted(points, key=lambda name: -float(pixels[name][1])):
        point = points[name]
        label = axes.annotate(name, (point.x, point.y), (8, 0), textcoords="offset points", color=colours[name])
        label.set_verticalalignment("center")
        label.set_in_layout(False)
        if label.get_window_extent().x1 > axes.bbox.x1:
            label.set_position((-8, 0))
            label.set_horizontalalignment("right")
        while any(label.get_window_extent().overlaps(other) for other in taken):
            x, y = label.get_position()
            label.set_position((x, y - 1))
        taken.append(label.get_window_extent())


def _short(value: float) -> str:
    """1000 as 1k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
