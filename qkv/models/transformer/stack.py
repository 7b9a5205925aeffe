"""Layers one after the other, each with its own weights or all with the same."""

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import Tensor, nn

from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.stacks import LayerSchedule
from qkv.models.transformer.stacks.base import Layers

Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.Module, Generic[Layer]):
    """`num_layers` layers, the walk of a state through them, and what follows the last one.

    With one layer for all depths (shared), its parameters exist once and are used `num_layers` times.
    """

    def __init__(self, layers: list[Layer], num_layers: int, final: nn.Module, depth: LayerSchedule) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.num_layers = num_layers
        self.final = final
        self.depth = depth

    def in_order(self) -> Iterator[Layer]:
        for depth in range(self.num_layers):
            yield cast(Layer, self.layers[depth % len(self.layers)])

    def run(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        """Through the layers, bound to what they look at, and what follows them."""
        result: Tensor = self.final(self.depth(x, layers, context))
        return result

    def all_states(self, x: Tensor, layers: Layers, context: AttentionContext) -> list[Tensor]:
        """What comes in and the state after each layer; after the last one, what follows it too."""
        states = [x, *self.depth.states(x, layers, context)]
        states[-1] = self.final(states[-1])
        return states
