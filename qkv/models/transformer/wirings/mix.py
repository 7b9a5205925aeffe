"""Transparent attention (Bapna 2018): each decoder layer attends to its own weighted mean of all encoder layers."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from qkv.models.transformer.wirings.base import LayerMemories, WiringConfig, wirings
from qkv.models.transformer.wirings.exposed import StateNorms


@wirings.register
class MixConfig(WiringConfig):
    """Each decoder layer attends to a learned mean of the embedded source and all encoder layers."""

    kind: Literal["mix"] = "mix"

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> "Mix":
        return Mix(encoder_layers, decoder_layers, d_model, build_norm)


class Mix(LayerMemories):
    """mem_k = sum_l softmax(w_k)_l LN_l(S_l), l = 0 ... N; w starts at 0, the plain mean."""

    def __init__(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> None:
        super().__init__(decoder_layers)
        self.state_norms = StateNorms(encoder_layers, d_model, build_norm)
        self.logits = nn.Parameter(torch.zeros(decoder_layers, encoder_layers + 1))

    def expose(self, states: list[Tensor]) -> Tensor:
        shares = torch.softmax(self.logits, dim=-1)
        stacked = torch.stack(self.state_norms(states), dim=-2)
        return torch.matmul(shares, stacked).flatten(-2)
