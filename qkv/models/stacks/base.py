"""How often, and in which order, a state passes the layers of a stack. A new way is a new file here."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.layers.positions import Positions
from qkv.layers.residual import Connection, Sublayer
from qkv.layers.view import View


@runtime_checkable
class Layers(Protocol):
    """The layers of a stack, bound to what they look at in this pass; counted from 0."""

    def __call__(self, number: int, x: Tensor) -> Tensor:
        """A state after layer `number`."""
        for residual, f in self.sublayers(number):
            x = residual(x, f)
        return x

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        """The same layer in its parts: x = residual(x, f) for each of them."""


@runtime_checkable
class TrainedLayers(Layers, Protocol):
    """Layers with gradients."""

    def depends_on(self, number: int) -> list[Tensor]:
        """All that layer `number` computes with, besides a state, and that may want a gradient."""


@runtime_checkable
class CachedLayers(Layers, Protocol):
    """The layers of a decoder at one new position a row [R, D]."""

    def remember(self, number: int, x: Tensor) -> None:
        """Keep keys and values of `x` for the positions that follow, without going through the layer."""

    def end_at(self, numbers: Tensor) -> None:
        """Row r went no deeper than layer numbers[r]; said by a depth that `ends_early`."""


class Depth(nn.Module):
    """A walk of a state through `num_layers` layers. This base takes each layer once, in order."""

    ends_early: bool = False
    """Whether a position may be done before the last layer."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers

    def states(self, x: Tensor, layers: Layers, view: View) -> Iterator[Tensor]:
        """The state [B, T, D] after each layer; only of a kind that `exposes` them."""
        for number in range(self.num_layers):
            x = layers(number, x)
            yield x

    def forward(self, x: Tensor, layers: Layers, view: View) -> Tensor:
        """All positions [B, T, D] to the result of the stack, before its final norm."""
        for state in self.states(x, layers, view):
            x = state
        return x

    def step(self, x: Tensor, layers: CachedLayers, at: int) -> Tensor:
        """The same for one new position a row [R, D], all at position `at`."""
        for number in range(self.num_layers):
            x = layers(number, x)
        return x


class StackConfig(Config):
    """How a state passes the layers of a stack."""

    kind: str

    @property
    def shared(self) -> bool:
        """Whether one layer stands at every depth."""
        return False

    @property
    def exposes(self) -> bool:
        """Whether there is one state after each layer, as every wiring but `last` needs."""
        return True

    @property
    def adds_only(self) -> bool:
        """Whether it needs a residual form that only adds to its stream."""
        return False

    def build(self, num_layers: int, d_model: int, positions: Positions) -> Depth:
        """For the encoder or for the decoder; `positions` are those of its stack."""
        raise NotImplementedError


stacks = Kinds[StackConfig]("stack")
