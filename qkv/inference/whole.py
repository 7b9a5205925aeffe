"""A model that computes all positions of its output in one pass, or reads given outputs, without gradients."""

from typing import TypeVar, cast

from torch import Tensor

from qkv.inference.layers import copied_by_columns
from qkv.inference.transformer import FusedDecoder, FusedEncoder
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.decoder import Decoder, DecoderLayer
from qkv.models.transformer.encoder import Encoder, EncoderLayer
from qkv.models.transformer.model import Transformer

TransformerModel = TypeVar("TransformerModel", bound=Transformer)


def fused(model: TransformerModel) -> TransformerModel:
    """A faster copy of the model with its present weights; it cannot be trained.

    For one short text, the overhead of calling an operation is as large as computing it.
    """
    copied = copied_by_columns(model)
    copied.encoder, copied.decoder = WholeEncoder(copied.encoder), WholeDecoder(copied.decoder)
    copied.head = copied.head.by_columns()
    return copied


class WholeEncoder(Encoder):
    """The fast twin of an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        layers = [cast(EncoderLayer, layer) for layer in encoder.layers]
        super().__init__(layers, encoder.num_layers, encoder.final, encoder.depth, encoder.wiring)
        self.fast = FusedEncoder(encoder)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        return self.fast(x, context)


class WholeDecoder(Decoder):
    """The fast twin of a decoder."""

    def __init__(self, decoder: Decoder) -> None:
        layers = [cast(DecoderLayer, layer) for layer in decoder.layers]
        super().__init__(layers, decoder.num_layers, decoder.final, decoder.depth, decoder.wiring)
        self.fast = FusedDecoder(decoder)

    def forward(self, x: Tensor, context: AttentionContext, memory: Tensor, cross_context: AttentionContext) -> Tensor:
        return self.fast.whole(x, context, memory, cross_context)
