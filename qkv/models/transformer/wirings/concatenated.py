"""One attention over all states of all encoder layers: a decoder layer picks the word and the depth at once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.wirings.base import Wiring, WiringConfig, wirings
from qkv.models.transformer.wirings.exposed import StateNorms


@wirings.register
class ConcatenatedConfig(WiringConfig):
    """Every decoder layer attends to all states of all encoder layers, N + 1 times as many keys."""

    kind: Literal["concatenated"] = "concatenated"

    @property
    def in_order(self) -> bool:
        return False

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> "Concatenated":
        return Concatenated(encoder_layers, decoder_layers, d_model, build_norm)


class Concatenated(Wiring):
    """mem_k = (S_l[j] + e_l for all layers l = 0 ... N and source positions j); e_l starts as N(0, 1 / d_model).

    The memory holds the states of a source token side by side, so W = (N + 1) D; places are ordered layer by layer.
    """

    def __init__(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        self.decoder_layers = decoder_layers
        self.state_norms = StateNorms(encoder_layers, d_model, build_norm)
        self.layer_embedding = nn.Parameter(torch.empty(encoder_layers + 1, d_model))
        nn.init.normal_(self.layer_embedding, std=d_model**-0.5)

    def expose(self, states: list[Tensor]) -> Tensor:
        marked = torch.stack(self.state_norms(states), dim=-2) + self.layer_embedding
        return marked.flatten(-2)

    def memories(self, memory: Tensor) -> Sequence[Tensor]:
        places = memory.unflatten(-1, self.layer_embedding.shape).transpose(1, 2).flatten(1, 2)
        return [places] * self.decoder_layers

    def spread(self, of_positions: Tensor) -> Tensor:
        return of_positions.repeat(*[1] * (of_positions.dim() - 1), len(self.layer_embedding))

    def look(self, cross_context: AttentionContext) -> AttentionContext:
        keep = None if cross_context.keep is None else self.spread(cross_context.keep)
        return replace(cross_context, k_pos=self.spread(cross_context.k_pos), keep=keep)

    def fold(self, weights: Tensor) -> Tensor:
        return weights.unflatten(-1, (len(self.layer_embedding), -1)).sum(dim=-2)
