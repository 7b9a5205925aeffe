"""The Universal Transformer (Dehghani 2019): one layer, applied at every step."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from qkv.functional.positions import sinusoidal
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import Positions
from qkv.models.transformer.stacks.base import Layers, LayerSchedule, StackConfig, stacks


@stacks.register
class UniversalConfig(StackConfig):
    """One layer, applied as often as the stack has layers; each step adds position and depth embeddings."""

    kind: Literal["universal"] = "universal"

    @property
    def shared(self) -> bool:
        return True

    def build(self, num_layers: int, d_model: int, positions: Positions) -> "Universal":
        return Universal(num_layers, d_model, positions)


class Universal(LayerSchedule):
    """h_t = Layer(h_{t-1} + PE(position) + PE(t)), t = 1 ... T

    PE(position) is the model's own scheme; the embedding has added it already when the first step begins.
    """

    needs_positions = True
    step_signal: Tensor

    def __init__(self, num_layers: int, d_model: int, positions: Positions) -> None:
        super().__init__(num_layers)
        self.positions = positions
        signal = sinusoidal(torch.arange(1, num_layers + 1), d_model)
        self.register_buffer("step_signal", signal, persistent=False)

    def marked(self, x: Tensor, number: int, context: AttentionContext) -> Tensor:
        """The input of the layer at a step, counted from 0: state, position and step embeddings."""
        placed = self.positions.embed(x, context.q_position_ids) if number else x
        return placed + self.step_signal[number]

    def states(self, x: Tensor, layers: Layers, context: AttentionContext) -> Iterator[Tensor]:
        for number in range(self.num_layers):
            x = layers(number, self.marked(x, number, context))
            yield x
