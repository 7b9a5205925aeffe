"""The matrix of sinusoidal positions."""

from typing import TYPE_CHECKING

import torch

from qkv.functional.positions import sinusoidal
from qkv.visual.figures.canvas import PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 620, 340


def sinusoid_figure(length: int = 50, d_model: int = 128) -> PaperFigure:
    """PE[pos, i] of `length` positions and `d_model` channels, from -1 (blue) to 1 (red)."""
    table = sinusoidal(torch.arange(length), d_model).numpy()

    def paint(axes: "Axes") -> None:
        drawn = axes.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        axes.set(xlabel="channel", ylabel="position")
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.colorbar(drawn, ax=axes)

    return PaperFigure(paint, *SIZE, f"Sinusoidal positions: {length} positions, {d_model} channels")
