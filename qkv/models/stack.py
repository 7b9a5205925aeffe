"""Layers one after the other, each with its own weights or all with the same."""

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import nn

Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.Module, Generic[Layer]):
    """`num_layers` layers and what follows the last one.

    With one layer for all depths (shared), its parameters exist once and are used `num_layers` times.
    """

    def __init__(self, layers: list[Layer], num_layers: int, final: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.num_layers = num_layers
        self.final = final

    def in_order(self) -> Iterator[Layer]:
        for depth in range(self.num_layers):
            yield cast(Layer, self.layers[depth % len(self.layers)])
