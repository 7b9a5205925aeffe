"""The encoder without gradients: all positions at once, and as few operations as plain layers need."""

from collections.abc import Sequence

from torch import Tensor

from qkv.layers.view import View
from qkv.models.encoder import Encoder, EncoderLayers
from qkv.models.inference_layers import InferenceEncoderLayer
from qkv.models.stacks.base import Depth
from qkv.models.wide_attention import Around, hiding, is_plain
from qkv.models.wirings.last import Last


class InferenceEncoder:
    """An `Encoder` without gradients. It copies weights: make a new one after they have changed."""

    def __init__(self, encoder: Encoder) -> None:
        self.stack = encoder
        # A layer that stands at several depths is laid out once.
        made = {layer: InferenceEncoderLayer(layer) for layer in encoder.in_order()}
        self.layers = [made[layer] for layer in encoder.in_order()]
        self._plain = (
            isinstance(encoder.wiring, Last)
            and type(encoder.depth) is Depth
            and all(is_plain(layer.attention) for layer in self.layers)
        )

    def __call__(self, x: Tensor, view: View) -> Tensor:
        """Embedded source [B, S, D] to memory [B, S, W]; positions are not drawn, and there is no predicate."""
        if not self._plain:
            return self.stack.wiring.read(self.stack, x, EncoderLayers(self.layers, view), view)
        memory: Tensor = self.stack.final(through_layers(self.layers, x, view))
        return memory


def through_layers(layers: Sequence[InferenceEncoderLayer], x: Tensor, view: View) -> Tensor:
    """[B, S, D] through layers that are all plain; there is no predicate."""
    hidden, length = hiding(view.keep, x), x.shape[1]
    # A product of rows is a little faster than one of rows in batches.
    rows = x.flatten(0, 1)
    for layer in layers:
        rows = layer.attention_residual(rows, Around(layer.attention, length, hidden, view.q_told))
        rows = layer.feed_forward_residual(rows, layer.feed_forward)
    return rows.view(x.shape)
