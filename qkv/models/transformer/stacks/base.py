"""A state passes the layers of a stack: what a stack is, and how often and in which order it takes its layers.

`Encoder.forward` and `Decoder.forward` bind their layers to what these attend to, and call `Stack.run`; the schedule
takes one layer after the other (`LayerSchedule.forward`), and a layer is x = residual(x, f) for each of its sublayers
(`Layers.__call__`). A new schedule is a new file beside this one.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import Positions
from qkv.layers.residual import Connection, Sublayer


class Layers:
    """The layers of a stack, bound to the inputs of one pass; counted from 0."""

    def __call__(self, number: int, x: Tensor) -> Tensor:
        """A state after layer `number`."""
        for residual, f in self.sublayers(number):
            x = residual(x, f)
        return x

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        """The sublayers of a layer: x = residual(x, f) for each of them."""
        raise NotImplementedError

    def remember(self, number: int, x: Tensor) -> None:
        """Append keys and values of `x` to the layer's KV cache, if there is one, without going through the layer."""

    def end_at(self, numbers: Tensor) -> None:
        """Each position went no deeper than the layer of this number [B, T]; called by a schedule that `ends_early`."""


class TrainedLayers(Layers):
    """Layers with gradients."""

    def depends_on(self, number: int) -> list[Tensor]:
        """The tensors besides the state that layer `number` depends on and that may need a gradient."""
        raise NotImplementedError


class LayerSchedule(nn.Module):
    """Passes a state through `num_layers` layers. This base class applies each layer once, in order."""

    ends_early: bool = False
    """Whether a position may be done before the last layer."""
    calls_layers: bool = True
    """Whether it calls each layer as a whole, and each as often in every pass: then a layer may be sharded and
    recomputed on its own."""
    needs_positions: bool = False
    """Whether a state must be [B, T, D]; otherwise it may be rows [B T, D], whose products are a little faster."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers

    def states(self, x: Tensor, layers: Layers, context: AttentionContext) -> Iterator[Tensor]:
        """The state [B, T, D] after each layer; only of a kind that `exposes` them."""
        for number in range(self.num_layers):
            x = layers(number, x)
            yield x

    def forward(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        """All positions [B, T, D] to the result of the stack, before its final norm."""
        for state in self.states(x, layers, context):
            x = state
        return x

    def flat(self, x: Tensor) -> Tensor:
        """A state [B, T, D] in the shape that is fastest at inference."""
        return x if self.needs_positions else x.flatten(0, 1)


Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.Module, Generic[Layer]):
    """`num_layers` layers, the schedule by which a state passes them, and what follows the last one.

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

    def separate(self) -> list[nn.Module]:
        """The layers, if each of them is called as a whole and as often in every pass."""
        return list(self.layers) if self.depth.calls_layers else []

    def run(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        """Through the layers, bound to what they look at, and what follows them."""
        result: Tensor = self.final(self.depth(x, layers, context))
        return result


def separate_layers(model: nn.Module) -> list[nn.Module]:
    """Those of all stacks in a model."""
    return [layer for module in model.modules() if isinstance(module, Stack) for layer in module.separate()]


class StackConfig(Config):
    """Base class of the configs of layer schedules."""

    kind: str

    @property
    def shared(self) -> bool:
        """Whether one layer is shared by all depths."""
        return False

    @property
    def exposes(self) -> bool:
        """Whether there is one state after each layer, as every wiring but `last` needs."""
        return True

    @property
    def adds_only(self) -> bool:
        """Whether it needs a residual kind that only adds to its stream."""
        return False

    def build(self, num_layers: int, d_model: int, positions: Positions) -> LayerSchedule:
        """For the encoder or for the decoder; `positions` are those of its stack."""
        raise NotImplementedError


stacks = Kinds[StackConfig]("stack")
