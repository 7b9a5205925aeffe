"""The decoder: masked self-attention, attention to the memory, feed-forward, layer upon layer."""

from collections.abc import Sequence

from torch import Tensor, nn

from qkv.layers.attention import Attention
from qkv.layers.attention.context import View
from qkv.layers.feed_forward import PositionWise
from qkv.layers.residual import Connection, Residual, Sublayer
from qkv.models.transformer.stack import Stack
from qkv.models.transformer.stacks import Depth
from qkv.models.transformer.stacks.base import TrainedLayers
from qkv.models.transformer.wirings import Wiring


class DecoderLayer(nn.Module):
    """x = sublayer(x, masked self-attention); sublayer(x, cross-attention); sublayer(x, feed-forward)"""

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: PositionWise,
        residuals: list[Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual, self.cross_residual, self.feed_forward_residual = residuals

    def forward(self, x: Tensor, view: View, memory: Tensor, cross_view: View) -> Tensor:
        for residual, f in self.sublayers(view, memory, cross_view):
            x = residual(x, f)
        return x

    def sublayers(self, view: View, memory: Tensor, cross_view: View) -> list[tuple[Connection, Sublayer]]:
        def attend(h: Tensor) -> Tensor:
            key_value = self.cross_attention.project(memory, cross_view.k_pos)
            return self.cross_attention.attend(h, key_value, cross_view)

        return [
            (self.attention_residual, lambda h: self.attention(h, view)),
            (self.cross_residual, attend),
            (self.feed_forward_residual, self.feed_forward),
        ]


class Decoder(Stack[DecoderLayer]):
    """Embedded target [B, T, D] and memory [B, S, W] to decoded [B, T, D]."""

    def __init__(
        self, layers: list[DecoderLayer], num_layers: int, final: nn.Module, depth: Depth, wiring: Wiring
    ) -> None:
        super().__init__(layers, num_layers, final, depth)
        self.wiring = wiring

    def forward(self, x: Tensor, view: View, memory: Tensor, cross_view: View) -> Tensor:
        memories, cross_view = self.wiring.memories(memory), self.wiring.look(cross_view)
        return self.run(x, _DecoderLayers(list(self.in_order()), view, memories, cross_view), view)


class _DecoderLayers(TrainedLayers):
    """See `Layers`."""

    def __init__(self, layers: list[DecoderLayer], view: View, memories: Sequence[Tensor], cross_view: View) -> None:
        self.layers = layers
        self.view = view
        self.memories = memories
        self.cross_view = cross_view

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        return self.layers[number].sublayers(self.view, self.memories[number], self.cross_view)

    def depends_on(self, number: int) -> list[Tensor]:
        return [*self.layers[number].parameters(), self.memories[number]]
