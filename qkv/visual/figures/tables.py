"""Figures of numbers in files: quality against speed, score by length, the map of heads."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.core.errors import DataError, UsageError
from qkv.core.figures import SERIES
from qkv.core.reading import open_file
from qkv.visual.charts import POINTS, Point, paint_points
from qkv.visual.figures.canvas import PaperFigure
from qkv.visual.heads.figures import SIZE, HeadPoint, paint_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = 560, 340


def speed_figure(table: Path, higher_is_better: bool = True) -> PaperFigure:
    """Quality against speed: a table with tabs and a header, columns name, speed, score and, if wanted, group."""
    with open_file(table) as file:
        lines = file.read().decode("utf-8").splitlines()
    points = {}
    for number, row in enumerate(csv.DictReader(lines, delimiter="\t"), start=2):
        try:
            points[row["name"]] = Point(float(row["speed"]), float(row["score"]), row.get("group") or "")
        except (KeyError, TypeError, ValueError):
            raise DataError(
                f"{table}:{number}: needs name, speed and score between tabs, under a header with these names"
            ) from None
    if not points or min(point.x for point in points.values()) <= 0:
        raise DataError(f"{table}: needs at least one line, and speeds above 0")

    def paint(axes: "Axes") -> None:
        axes.set(xlabel="speed", ylabel="score")
        paint_points(axes, points, higher_is_better)

    return PaperFigure(paint, *POINTS, "Quality against speed")


def length_figure(evaluations: Sequence[Path], metric: str | None = None) -> PaperFigure:
    """Score by length with 95 % intervals, of files that `qkv evaluate --json` printed; `metric` None: their first."""
    read = {path.stem: _evaluation(path) for path in evaluations}
    first = next(iter(read.values()))
    chosen = metric or next(iter(first["scores"]))
    for name, found in read.items():
        if chosen not in found["scores"]:
            raise UsageError(f"{name}: has no {chosen}; give one of {', '.join(found['scores'])}")

    def paint(axes: "Axes") -> None:
        for place, (name, found) in enumerate(read.items()):
            parts = found["by_length"]
            middles = [part["scores"][chosen] for part in parts]
            both = [part["intervals"][chosen] for part in parts]
            bars = [[abs(m - one[end]) for m, one in zip(middles, both, strict=True)] for end in ("low", "high")]
            at = [number + 0.08 * (place - (len(read) - 1) / 2) for number in range(len(parts))]
            axes.errorbar(at, middles, bars, marker="o", capsize=3, color=SERIES[place % len(SERIES)], label=name)
        labels = [_span(part) for part in first["by_length"]]
        axes.set_xticks(range(len(labels)), labels)
        axes.set(xlabel=f"length: {first['length_in']}", ylabel=chosen)
        axes.grid(axis="y")
        axes.legend(loc="best", labelcolor="linecolor")

    return PaperFigure(paint, *LENGTHS, f"{chosen} by length")


def _span(part: Mapping[str, Any]) -> str:
    low, high = part["low"], part["high"]
    if high is None:
        return f"{low}+"
    return str(low) if low == high else f"{low}–{high}"


def _evaluation(path: Path) -> dict[str, Any]:
    found = _json(path)
    if not {"scores", "by_length", "length_in"} <= found.keys():
        raise DataError(
            f"{path}: is not what qkv evaluate --json prints for one test set; give --split or --data there"
        )
    return found


def head_map_figure(analysis: Path, side: str) -> PaperFigure:
    """The map of the heads of one side, of a file that `qkv heads --json` printed."""
    found = _json(analysis)
    if side not in found.get("sides", {}):
        raise DataError(f"{analysis}: is not what qkv heads --json prints, or has no {side}")
    heads = [
        HeadPoint(one["layer"], one["head"], one["place"][0], one["place"][1], one["role"])
        for one in found["sides"][side]["heads"]
    ]
    return PaperFigure(lambda axes: paint_map(axes, heads), *SIZE, f"Map of the heads: {side}")


def _json(path: Path) -> dict[str, Any]:
    with open_file(path) as file:
        try:
            found = json.loads(file.read())
        except ValueError:
            raise DataError(f"{path}: is not JSON") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: is not a JSON object")
    return found
