"""A model that fills canvases or reads outputs, without gradients: the same model, with stacks whose weights are fused,
bound as plain tensors and laid by columns. For one short text, calling an operation takes as long as computing it.
"""

from collections.abc import Sequence
from typing import TypeVar, cast

from torch import Tensor, nn

from qkv.layers.residual import Connection, Sublayer
from qkv.layers.view import View
from qkv.models.columns import by_columns, laid_by_columns, lay_projections
from qkv.models.decoder import Decoder, DecoderLayer
from qkv.models.encoder import Encoder, EncoderLayer
from qkv.models.head import LinearHead
from qkv.models.inference_layers import InferenceDecoderLayer, MemoryProjections
from qkv.models.seq2seq import Seq2Seq
from qkv.models.stacks.base import Depth, Layers
from qkv.models.wide_attention import Across, Around, hiding, is_plain, unseen
from qkv.models.wide_encoder import InferenceEncoder

Model = TypeVar("Model", bound=Seq2Seq)


def for_one_pass(model: Model) -> Model:
    """A copy, as the weights are now, that reads and fills the same and faster; it cannot be trained."""
    laid = laid_by_columns(model)
    laid.encoder, laid.decoder = OnePassEncoder(laid.encoder), OnePassDecoder(laid.decoder)
    laid.head = LinearHead(nn.Parameter(by_columns(model.head.weight.detach()), requires_grad=False))
    return laid


class OnePassEncoder(Encoder):
    """The fast twin of an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        layers = [cast(EncoderLayer, layer) for layer in encoder.layers]
        super().__init__(layers, encoder.num_layers, encoder.final, encoder.depth, encoder.wiring)
        self.fast = InferenceEncoder(encoder)
        lay_projections(*(layer.attention for layer in self.fast.layers))

    def forward(self, x: Tensor, view: View) -> Tensor:
        return self.fast(x, view)


class OnePassDecoder(Decoder):
    """The fast twin of a decoder."""

    def __init__(self, decoder: Decoder) -> None:
        layers = [cast(DecoderLayer, layer) for layer in decoder.layers]
        super().__init__(layers, decoder.num_layers, decoder.final, decoder.depth, decoder.wiring)
        made = {layer: InferenceDecoderLayer(layer) for layer in decoder.in_order()}
        self.fast = [made[layer] for layer in decoder.in_order()]
        self.project = MemoryProjections(decoder)
        lay_projections(
            *(part for layer in self.fast for part in (layer.attention, layer.cross_attention)), self.project
        )
        self.in_rows = type(self.depth) is Depth and all(is_plain(layer.attention) for layer in self.fast)
        """Whether no part asks which rows are one sentence; a product of rows is a little faster."""

    def forward(self, x: Tensor, view: View, memory: Tensor, cross_view: View) -> Tensor:
        memories = self.project(self.wiring.memories(memory)).unbind(0)
        hidden = None if view.mask is None else unseen(view.mask, x)
        padding = hiding(self.wiring.look(cross_view).keep, x)
        layers = _OnePassLayers(self.fast, view, hidden, memories, padding)
        return self.run(x.flatten(0, 1) if self.in_rows else x, layers, view).view(x.shape)


class _OnePassLayers(Layers):
    """See `Layers`."""

    def __init__(
        self,
        layers: Sequence[InferenceDecoderLayer],
        view: View,
        hidden: Tensor | None,
        memories: Sequence[Tensor],
        padding: Tensor | None,
    ) -> None:
        self.layers = layers
        self.view = view
        self.hidden = hidden
        """Of the canvas, as PyTorch's kernel adds it."""
        self.memories = memories
        """Keys and values of the source for each layer, [2, B, KV heads, S, E]."""
        self.padding = padding
        """Of the source."""
        self.length = view.q_pos.shape[-1]

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        layer = self.layers[number]
        return [
            (layer.attention_residual, self._around(layer)),
            (layer.cross_residual, Across(layer.cross_attention, self.length, self.memories[number], self.padding)),
            (layer.feed_forward_residual, layer.feed_forward),
        ]

    def _around(self, layer: InferenceDecoderLayer) -> Sublayer:
        if is_plain(layer.attention):
            return Around(layer.attention, self.length, self.hidden, self.view.q_told)
        return lambda h: layer.attention(h, self.view)
