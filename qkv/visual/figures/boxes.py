"""Boxes with words in them and lines between them, at places in pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qkv.core.figures import FAINT, LINE, SERIES, TEXT
from qkv.visual.figures.canvas import PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN = SERIES[2]
"""The colour of what was chosen."""
SIZE, SMALL = 9, 7
"""Sizes of letters, in points."""
MARGIN = 8


@dataclass(frozen=True)
class FigureBox:
    """A box from its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    text: str = ""
    below: str = ""
    """A second line, smaller."""
    fill: str = LINE
    shade: float = 0.35
    """How opaque it is filled."""
    edge: str = FAINT
    thick: bool = False
    dashed: bool = False
    struck: bool = False
    """Faint words: what was rejected."""


@dataclass(frozen=True)
class Link:
    """A line between two points; `curved`: it leaves and arrives to the right."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: str = LINE
    width: float = 1.2
    opacity: float = 1.0
    curved: bool = True


@dataclass(frozen=True)
class Words:
    """Text without a box, from its left end."""

    x: float
    y: float
    text: str
    bold: bool = False
    middle: bool = False


def boxes_figure(boxes: Sequence[FigureBox], links: Sequence[Link], words: Sequence[Words], title: str) -> PaperFigure:
    """A figure as large as what is on it."""
    width = max((box.x + box.width for box in boxes), default=100) + 2 * MARGIN
    height = max((box.y + box.height for box in boxes), default=40) + 2 * MARGIN

    def paint(axes: "Axes") -> None:
        axes.axis("off")
        axes.set(xlim=(-MARGIN, width - MARGIN), ylim=(height - MARGIN, -MARGIN), aspect="equal")
        for link in links:
            _paint_link(axes, link)
        for box in boxes:
            _paint_box(axes, box)
        for each in words:
            weight, side = "bold" if each.bold else "normal", "center" if each.middle else "left"
            axes.text(each.x, each.y, each.text, fontsize=SIZE, fontweight=weight, ha=side, va="center")

    return PaperFigure(paint, round(width), round(height), title)


def _paint_link(axes: "Axes", link: Link) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    middle = (link.x1 + link.x2) / 2
    points = [(link.x1, link.y1), (middle, link.y1), (middle, link.y2), (link.x2, link.y2)]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    path = Path(points, codes) if link.curved else Path([points[0], points[3]], [Path.MOVETO, Path.LINETO])
    axes.add_patch(PathPatch(path, fill=False, edgecolor=link.colour, linewidth=link.width, alpha=link.opacity))


def _paint_box(axes: "Axes", box: FigureBox) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=4"
    patch = FancyBboxPatch(
        (box.x, box.y), box.width, box.height, boxstyle=style, facecolor=to_rgba(box.fill, box.shade)
    )
    patch.set(edgecolor=box.edge, linewidth=1.8 if box.thick else 0.8, linestyle="--" if box.dashed else "-")
    axes.add_patch(patch)
    middle, colour = box.x + box.width / 2, FAINT if box.struck else TEXT
    first = box.y + box.height * (0.36 if box.below else 0.5)
    axes.text(middle, first, box.text, fontsize=SIZE, color=colour, ha="center", va="center_baseline")
    if box.below:
        second = box.y + 0.75 * box.height
        axes.text(middle, second, box.below, fontsize=SMALL, color=FAINT, ha="center", va="center_baseline")
    if box.struck:
        half = min(box.width / 2 - 4, 3 * len(box.text) + 2)
        axes.plot([middle - half, middle + half], [first, first], color=FAINT, linewidth=0.8)
