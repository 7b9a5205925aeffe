"""A figure: what paints it, its size, its title; and matrices as cells of one colour."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qkv.core.figures import LINE, SERIES, figure_file
from qkv.core.outputs import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 16
"""Pixels of a cell of a matrix."""
LETTER = 6.5
"""Pixels of a letter of a label, about."""
FAINTEST = 0.005
"""Smaller weights are not drawn."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class PaperFigure:
    """Something to be written as SVG, PNG or PDF."""

    paint: Callable[["Axes"], None]
    width: int
    height: int
    """In pixels."""
    title: str

    def write(self, path: Path) -> None:
        """In the format that the name of the file says."""
        write_output(path, figure_file(self.paint, self.width, self.height, self.title, path.suffix.lower()))


def paint_matrix(axes: "Axes", matrix: Matrix, rows: Sequence[str], columns: Sequence[str], colour: str) -> None:
    """Cells from pale (0) to full colour (1), rows down and columns to the right, with a frame around them."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    seen = [(row, column) for row, column in np.argwhere(matrix >= FAINTEST).tolist()]
    cells = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in seen]
    colours = [to_rgba(colour, min(float(matrix[row, column]), 1.0)) for row, column in seen]
    axes.add_collection(PatchCollection(cells, facecolors=colours, edgecolors="none"))
    height, width = matrix.shape
    axes.add_patch(Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=LINE))
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal")
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_xticks(range(len(columns)), list(columns), fontsize=8, rotation=90)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def matrices(
    panels: Mapping[str, Matrix], rows: Sequence[str], columns: Sequence[str], title: str, across: int = 4
) -> PaperFigure:
    """Several matrices with the same rows and columns side by side, each under its name."""
    high, wide = next(iter(panels.values())).shape
    left, top = (round(LETTER * max(map(len, labels), default=0)) + 10 for labels in (rows, columns))
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    width, height = left + CELL * wide, top + CELL * high + 24
    whole = across * (width + 12), down * (height + 12)

    def paint(axes: "Axes") -> None:
        axes.axis("off")
        for number, (name, matrix) in enumerate(panels.items()):
            row, column = divmod(number, across)
            x, y = column * (width + 12) + left, whole[1] - row * (height + 12) - height
            place = (x / whole[0], y / whole[1], CELL * wide / whole[0], CELL * high / whole[1])
            inner = axes.inset_axes(place)
            paint_matrix(inner, matrix, rows, columns, SERIES[number % len(SERIES)] if len(panels) > 1 else SERIES[0])
            inner.set_xlabel(name)

    return PaperFigure(paint, *whole, title)
