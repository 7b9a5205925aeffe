"""Dense wiring: each decoder layer reads all encoder layers through a matrix of its own."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from qkv.models.transformer.wirings.base import LayerMemories, WiringConfig, wirings
from qkv.models.transformer.wirings.exposed import StateNorms


@wirings.register
class DenseConfig(WiringConfig):
    """Each decoder layer attends to a linear map of the embedded source and all encoder layers, side by side."""

    kind: Literal["dense"] = "dense"

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> "Dense":
        return Dense(encoder_layers, decoder_layers, d_model, build_norm)


class Dense(LayerMemories):
    """mem_k = W_k [S_0; ...; S_N] + b_k; starts as the identity on S_N and 0 on the others: the wiring `last`."""

    def __init__(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> None:
        super().__init__(decoder_layers)
        self.state_norms = StateNorms(encoder_layers, d_model, build_norm)
        self.linear = nn.Linear((encoder_layers + 1) * d_model, decoder_layers * d_model)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        d_model = self.linear.out_features // self.decoder_layers
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        for block in self.linear.weight[:, -d_model:].split(d_model):
            block.fill_diagonal_(1.0)

    def expose(self, states: list[Tensor]) -> Tensor:
        memory: Tensor = self.linear(torch.cat(self.state_norms(states), dim=-1))
        return memory
