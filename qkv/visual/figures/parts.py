"""Parts of a model: masks, positions, wirings, and the depth of each token."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from qkv.core.figures import LINE, SERIES
from qkv.visual.depth import Depths
from qkv.visual.figures.boxes import FigureBox, Link, Words, boxes_figure
from qkv.visual.figures.canvas import FAINTEST, Matrix, PaperFigure
from qkv.visual.svg import column_width, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE, GAP, NAME = 150, 22, 26
"""Pixels of a panel, between two panels, and above a panel for its name."""
COLUMNS = 4
LOW, HIGH = SERIES[0], SERIES[4]
"""Below and above the mean."""


def mask_figure(panels: Mapping[str, Tensor], title: str) -> PaperFigure:
    """Queries run down, keys to the right; coloured: the query may attend to the key, itself the strongest."""

    def levels(panel: Tensor) -> Matrix:
        allowed = panel.double().numpy()
        return allowed * (0.45 + 0.55 * np.eye(*allowed.shape))

    return _panels({name: levels(panel) for name, panel in panels.items()}, title)


def position_figure(panels: Mapping[str, Tensor], title: str) -> PaperFigure:
    """Queries run down, keys to the right; red raises a score above the panel's mean, blue lowers it."""

    def levels(panel: Tensor) -> Matrix:
        centred = (panel - panel.nanmean()).double().nan_to_num(0).numpy()
        return centred / (np.abs(centred).max() or 1)

    return _panels({name: levels(panel) for name, panel in panels.items()}, title)


def _panels(panels: Mapping[str, Matrix], title: str) -> PaperFigure:
    """Matrices of numbers between -1 and 1 side by side, each under its name."""
    columns = min(COLUMNS, len(panels))
    widest = max(SIDE, round(6.2 * max(map(len, panels))))
    width, height = columns * (widest + GAP), -(-len(panels) // columns) * (SIDE + NAME + GAP)

    def paint(axes: "Axes") -> None:
        axes.axis("off")
        for number, (name, levels) in enumerate(panels.items()):
            row, column = divmod(number, columns)
            x, y = column * (widest + GAP), height - row * (SIDE + NAME + GAP) - NAME - SIDE
            inner = axes.inset_axes((x / width, y / height, SIDE / width, SIDE / height))
            _paint_levels(inner, levels)
            inner.set_title(name, fontsize=9, loc="left", pad=4)

    return PaperFigure(paint, width, height, title)


def _paint_levels(axes: "Axes", levels: Matrix) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    seen = [(row, column) for row, column in np.argwhere(np.abs(levels) >= FAINTEST).tolist()]
    colours = [to_rgba(HIGH if levels[place] > 0 else LOW, min(1.0, abs(float(levels[place])))) for place in seen]
    if bool((levels >= 0).all()):
        colours = [to_rgba(LOW, colour[3]) for colour in colours]
    squares = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in seen]
    axes.add_collection(PatchCollection(squares, facecolors=colours, edgecolors="none"))
    rows, columns = levels.shape
    axes.add_patch(Rectangle((-0.5, -0.5), columns, rows, fill=False, edgecolor=LINE))
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def wiring_figure(panels: Mapping[str, Tensor], title: str) -> PaperFigure:
    """States of the encoder left, layers of the decoder right, from the bottom up; thick: a strong connection."""
    box, row, across = 32, 44, 96
    tallest = max(max(each.shape[0] + 1, each.shape[1]) for each in panels.values())
    boxes, links, words = [], [], []
    for number, (name, strengths) in enumerate(panels.items()):
        x = number * (2 * box + across + 36)
        right, bottom = x + box + across, 30 + (tallest - 1) * row
        words.append(Words(x + box + across / 2, 8, name, bold=True, middle=True))
        for layer, line in enumerate(strengths.tolist()):
            ends = (right, bottom - (layer + 1) * row + box / 2)
            for state, strength in enumerate(line):
                if strength > FAINTEST:
                    start = (x + box, bottom - state * row + box / 2)
                    links.append(Link(*start, *ends, LOW, 0.5 + 2 * strength, 0.3 + 0.7 * strength, curved=False))
        boxes += [FigureBox(x, bottom - state * row, box, box, f"S{state}") for state in range(strengths.shape[1])]
        boxes += [
            FigureBox(right, bottom - layer * row, box, box, f"D{layer}") for layer in range(1, len(strengths) + 1)
        ]
    return boxes_figure(boxes, links, words, title)


def depth_figure(depths: Depths, title: str) -> PaperFigure:
    """What was read on the left, what was said on the right; a box for each step, filled if it was taken."""
    bar, row = 22, 24
    label = column_width([each.token for each in (*depths.source, *depths.target)], 13, 40, 160) + 10
    boxes, words = [], []
    x = 0.0
    for name, side, most in (
        ("read", depths.source, depths.most_source),
        ("said", depths.target, depths.most_target),
    ):
        words.append(Words(x, 8, name, bold=True))
        for number, each in enumerate(side, start=1):
            words.append(Words(x, number * row + 8, fitted(each.token, label - 10, 13)))
            for step in range(most):
                taken = step < each.steps
                place = (x + label + step * bar, number * row)
                boxes.append(
                    FigureBox(*place, bar - 4, 16, fill=LOW if taken else LINE, shade=0.9 if taken else 0.35, edge=LINE)
                )
        x += label + most * bar + 32
    return boxes_figure(boxes, [], words, title)
