"""Attention over an image: where the class token looks, in every head of every layer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from qkv.core.figures import FAINT
from qkv.visual.figures.canvas import PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL, GAP = 84, 0.12
"""Pixels of a panel, and the gap between two panels as a fraction of it."""


def image_attention_figure(
    image: Float[Tensor, "channels height width"], layers: Sequence[Tensor], title: str
) -> PaperFigure:
    """The image, then a row of heat maps for each layer, a column for each head; see `attention_to_patches`."""
    heads = len(layers[0])
    shown = ((image + 1) / 2).permute(1, 2, 0)

    def place(axes: "Axes", row: int, column: int, pixels: Any, **look: Any) -> None:
        left, top = column * (1 + GAP), row * (1 + GAP)
        axes.imshow(pixels, extent=(left, left + 1, top + 1, top), interpolation="nearest", **look)

    def paint(axes: "Axes") -> None:
        place(axes, 0, 0, shown if shown.shape[2] == 3 else shown[..., 0], cmap="gray", vmin=0, vmax=1)
        for row, weights in enumerate(layers):
            for head, weight in enumerate(weights):
                place(axes, row, head + 1, weight, cmap="viridis", vmin=0)
        for head in range(heads):
            axes.text((head + 1) * (1 + GAP) + 0.5, -0.08, f"head {head + 1}", ha="center", color=FAINT)
        for row in range(len(layers)):
            axes.text((heads + 1) * (1 + GAP), row * (1 + GAP) + 0.5, f"layer {row + 1}", va="center", color=FAINT)
        axes.set(xlim=(-0.02, (heads + 1.8) * (1 + GAP)), ylim=(len(layers) * (1 + GAP), -0.4))
        axes.set_axis_off()

    return PaperFigure(paint, int(PANEL * (heads + 2.2)), int(PANEL * (len(layers) * (1 + GAP) + 0.4)), title)
