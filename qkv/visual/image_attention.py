"""Attention over an image: where the class token looks, in every head of every layer."""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.core.figures import FAINT, standalone_chart
from qkv.layers.attention.recording import capture_attention
from qkv.models.vision.classifier import VisionTransformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL, GAP = 84, 0.12
"""Pixels of a panel, and the gap between two panels as a fraction of it."""


@torch.no_grad()
def attention_to_patches(model: VisionTransformer, image: Float[Tensor, "channels height width"]) -> list[Tensor]:
    """For each layer [H, rows, columns]: the weight of each patch for the class token, or the mean over all patches."""
    with capture_attention(model) as record:
        model(image[None])
    before = int(model.pooling == "class_token")
    size = model.embedding.size
    rows, columns = image.shape[1] // size, image.shape[2] // size
    found = []
    for name in record:
        weights = record[name][0]
        queries = weights[:, 0] if before else weights.mean(dim=1)
        found.append(queries[:, before:].view(-1, rows, columns))
    return found


def draw_image_attention(model: VisionTransformer, image: Float[Tensor, "channels height width"], title: str) -> str:
    """A standalone SVG: the image, then a row of heat maps for each layer, a column for each head."""
    layers = attention_to_patches(model, image)
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

    return standalone_chart(paint, int(PANEL * (heads + 2.2)), int(PANEL * (len(layers) * (1 + GAP) + 0.4)), title)
