"""The decoder: layers of masked self-attention, cross-attention and feed-forward."""

from collections.abc import Sequence

from torch import Tensor, nn

from qkv.layers.attention import Attention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.feed_forward import PositionWise
from qkv.layers.residual import Connection, Residual, Sublayer
from qkv.models.transformer.stacks import LayerSchedule
from qkv.models.transformer.stacks.base import Stack, TrainedLayers
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

    def forward(self, x: Tensor, context: AttentionContext, memory: Tensor, cross_context: AttentionContext) -> Tensor:
        for residual, f in self.sublayers(context, memory, cross_context):
            x = residual(x, f)
        return x

    def sublayers(
        self, context: AttentionContext, memory: Tensor, cross_context: AttentionContext
    ) -> list[tuple[Connection, Sublayer]]:
        def attend(h: Tensor) -> Tensor:
            key_value = self.cross_attention.project(memory, cross_context.k_pos)
            return self.cross_attention.cross_attend(h, key_value, cross_context)

        return [
            (self.attention_residual, lambda h: self.attention(h, context)),
            (self.cross_residual, attend),
            (self.feed_forward_residual, self.feed_forward),
        ]


class Decoder(Stack[DecoderLayer]):
    """Embedded target [B, T, D] and memory [B, S, M] to decoded [B, T, D]."""

    def __init__(
        self, layers: list[DecoderLayer], num_layers: int, final: nn.Module, depth: LayerSchedule, wiring: Wiring
    ) -> None:
        super().__init__(layers, num_layers, final, depth)
        self.wiring = wiring

    def forward(self, x: Tensor, context: AttentionContext, memory: Tensor, cross_context: AttentionContext) -> Tensor:
        memories, cross_context = self.wiring.memories(memory), self.wiring.look(cross_context)
        return self.run(x, _DecoderLayers(list(self.in_order()), context, memories, cross_context), context)


class _DecoderLayers(TrainedLayers):
    """See `Layers`."""

    def __init__(
        self,
        layers: list[DecoderLayer],
        context: AttentionContext,
        memories: Sequence[Tensor],
        cross_context: AttentionContext,
    ) -> None:
        self.layers = layers
        self.context = context
        self.memories = memories
        self.cross_context = cross_context

    def __call__(self, number: int, x: Tensor) -> Tensor:
        # By the module itself, which may be compiled.
        state: Tensor = self.layers[number](x, self.context, self.memories[number], self.cross_context)
        return state

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        return self.layers[number].sublayers(self.context, self.memories[number], self.cross_context)

    def depends_on(self, number: int) -> list[Tensor]:
        return [*self.layers[number].parameters(), self.memories[number]]
