"""The encoder: layers of self-attention and feed-forward."""

from torch import Tensor, nn

from qkv.layers.attention import Attention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.feed_forward import PositionWise
from qkv.layers.residual import Connection, Residual, Sublayer
from qkv.models.transformer.stacks import LayerSchedule
from qkv.models.transformer.stacks.base import Layers, Stack, TrainedLayers
from qkv.models.transformer.wirings import Wiring


class EncoderLayer(nn.Module):
    """x = sublayer(x, self-attention); x = sublayer(x, feed-forward)"""

    def __init__(self, attention: Attention, feed_forward: PositionWise, residuals: list[Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual, self.feed_forward_residual = residuals

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        for residual, f in self.sublayers(context):
            x = residual(x, f)
        return x

    def sublayers(self, context: AttentionContext) -> list[tuple[Connection, Sublayer]]:
        return [
            (self.attention_residual, lambda h: self.attention(h, context)),
            (self.feed_forward_residual, self.feed_forward),
        ]


class Encoder(Stack[EncoderLayer]):
    """Embedded source [B, S, D] to memory [B, S, M], which the wiring makes of its states."""

    def __init__(
        self, layers: list[EncoderLayer], num_layers: int, final: nn.Module, depth: LayerSchedule, wiring: Wiring
    ) -> None:
        super().__init__(layers, num_layers, final, depth)
        self.wiring = wiring

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        return self.run(x, _EncoderLayers(list(self.in_order()), context), context)

    def run(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        """Through the layers, with or without gradients; the wiring makes the memory of the states S_0 ... S_N."""
        if self.wiring.last_only:
            # The states in between need not be held.
            return super().run(x, layers, context)
        states = [x, *self.depth.states(x, layers, context)]
        states[-1] = self.final(states[-1])
        return self.wiring.expose(states)


class _EncoderLayers(TrainedLayers):
    """See `Layers`."""

    def __init__(self, layers: list[EncoderLayer], context: AttentionContext) -> None:
        self.layers = layers
        self.context = context

    def __call__(self, number: int, x: Tensor) -> Tensor:
        # By the module itself, which may be compiled.
        state: Tensor = self.layers[number](x, self.context)
        return state

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        return self.layers[number].sublayers(self.context)

    def depends_on(self, number: int) -> list[Tensor]:
        return list(self.layers[number].parameters())
