"""Length prediction: classification of the difference to the source length (Gu et al. 2018)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.models.parallel.base import EncodedSource

SMALLEST, LARGEST = -128, 127
"""The range of differences; others are clipped."""


class LengthPredictor(nn.Module):
    """softmax(W mean(memory) + b) over |Y| - |X|, both without END."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, LARGEST - SMALLEST + 1)

    def forward(self, source: EncodedSource) -> Float[Tensor, "B C"]:
        """Logits of the differences from the smallest to the largest."""
        mean = (source.memory * source.keep[..., None]).sum(dim=1) / source.lengths[:, None]
        logits: Tensor = self.output(mean)
        return logits

    def lengths(self, source: EncodedSource, count: int) -> Int[Tensor, "B N"]:
        """The `count` most probable lengths of each output, best first, none below 1; ties go to the shorter."""
        ranked = self(source).sort(dim=1, descending=True, stable=True).indices[:, :count]
        return (source.lengths[:, None] - 1 + ranked + SMALLEST).clamp(min=1)


def length_classes(src_lengths: Tensor, tgt_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The class of each pair, and which pairs are clipped.

    `src_lengths` count END, `tgt_lengths` do not.
    """
    difference = tgt_lengths - (src_lengths - 1)
    inside = difference.clamp(SMALLEST, LARGEST)
    return inside - SMALLEST, torch.ne(inside, difference)
