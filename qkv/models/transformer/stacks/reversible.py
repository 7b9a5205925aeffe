"""Reversible layers (Gomez 2017; Kitaev 2020): training memory independent of the depth."""

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from qkv.kernels.recompute import Step, reversible
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import Positions
from qkv.layers.residual import Connection, Sublayer
from qkv.models.transformer.stacks.base import Layers, LayerSchedule, StackConfig, TrainedLayers, stacks


@stacks.register
class ReversibleConfig(StackConfig):
    """Two streams: each sublayer reads one and adds to the other. Training saves no activations.

    The backward pass recomputes each sublayer."""

    kind: Literal["reversible"] = "reversible"

    @property
    def exposes(self) -> bool:
        # The state after each layer would have to be saved, and there are two.
        return False

    @property
    def adds_only(self) -> bool:
        return True

    def build(self, num_layers: int, d_model: int, positions: Positions) -> "Reversible":
        return Reversible(num_layers)


class Reversible(LayerSchedule):
    """(a, b) = (x, x); (a, b) -> (b, a + F(b)) for every sublayer; result (a + b) / 2

    F is what a sublayer adds to its residual stream, with the norm and the dropout of its connection.
    """

    calls_layers = False

    def forward(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        if not (torch.is_grad_enabled() and isinstance(layers, TrainedLayers)):
            return self._walk(x, layers)
        steps = [
            Step(partial(branch, connection, f), layers.depends_on(number))
            for number in range(self.num_layers)
            for connection, f in layers.sublayers(number)
        ]
        a, b = reversible(x, x, steps)
        return (a + b) / 2

    def _walk(self, x: Tensor, layers: Layers) -> Tensor:
        """Forward only: nothing needs to be run backwards."""
        a, b = x, x
        for number in range(self.num_layers):
            for connection, f in layers.sublayers(number):
                a, b = b, a + branch(connection, f, b)
        return (a + b) / 2


def branch(connection: Connection, f: Sublayer, x: Tensor) -> Tensor:
    """What the connection adds to its stream: F(x) = connection(x, f) - x."""
    return connection(x, f) - x
