"""Layer to layer: a decoder layer attends to the encoder layer of its own depth."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from qkv.models.transformer.wirings.base import LayerMemories, WiringConfig, wirings


@wirings.register
class LayerwiseConfig(WiringConfig):
    """Decoder layer k attends to encoder layer k; where the depths differ, to the one at the same share of the way."""

    kind: Literal["layerwise"] = "layerwise"

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> "Layerwise":
        return Layerwise(encoder_layers, decoder_layers, build_norm)


class Layerwise(LayerMemories):
    """mem_k = S_i with i = ceil(k N / M), k = 1 ... M; each state passes the norm of its form as S_N does."""

    def __init__(self, encoder_layers: int, decoder_layers: int, build_norm: Callable[[], nn.Module]) -> None:
        super().__init__(decoder_layers)
        self.wired = [math.ceil(k * encoder_layers / decoder_layers) for k in range(1, decoder_layers + 1)]
        inner = sorted(set(self.wired) - {encoder_layers})
        self.norms = nn.ModuleDict({str(number): build_norm() for number in inner})

    def expose(self, states: list[Tensor]) -> Tensor:
        normed = {number: self._normed(states[number], number) for number in set(self.wired)}
        return torch.cat([normed[number] for number in self.wired], dim=-1)

    def _normed(self, state: Tensor, number: int) -> Tensor:
        return self.norms[str(number)](state) if str(number) in self.norms else state
