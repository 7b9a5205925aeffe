"""Fused encoder and decoder for inference."""

from collections.abc import Sequence

from torch import Tensor

from qkv.inference.cache import SourceKeys
from qkv.inference.layers import (
    DecoderPass,
    EncoderPass,
    FusedDecoderLayer,
    FusedEncoderLayer,
    SourceProjections,
    additive,
    padding_mask,
)
from qkv.inference.layout import lay_by_columns
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.decoder import Decoder
from qkv.models.transformer.encoder import Encoder


class FusedEncoder:
    """An `Encoder` without gradients. It copies weights: make a new one after they have changed."""

    def __init__(self, encoder: Encoder, by_columns: bool = False) -> None:
        self.encoder = encoder
        # A shared layer is fused once.
        made = {layer: FusedEncoderLayer(layer) for layer in encoder.in_order()}
        self.layers = [made[layer] for layer in encoder.in_order()]
        if by_columns:
            lay_by_columns(*(layer.attention for layer in made.values()))

    def __call__(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Embedded source [B, S, D] to memory [B, S, M]."""
        layers = EncoderPass(self.layers, Block(context, x.shape[1], padding_mask(context.keep, x)))
        memory = self.encoder.run(self.encoder.depth.flat(x), layers, context)
        return memory.view(*x.shape[:2], -1)


class FusedDecoder:
    """A `Decoder` without gradients. It copies weights: make a new one after they have changed."""

    def __init__(self, decoder: Decoder, by_columns: bool = False) -> None:
        self.decoder, self.wiring, self.depth = decoder, decoder.wiring, decoder.depth
        made = {layer: FusedDecoderLayer(layer) for layer in decoder.in_order()}
        self.layers = [made[layer] for layer in decoder.in_order()]
        self.sources = SourceProjections(decoder)
        if by_columns:
            attentions = [part for layer in made.values() for part in (layer.attention, layer.cross_attention)]
            lay_by_columns(*attentions, self.sources)

    def whole(self, x: Tensor, context: AttentionContext, memory: Tensor, cross_context: AttentionContext) -> Tensor:
        """All positions [B, T, D] at once, as `Decoder.forward`."""
        padding = padding_mask(self.wiring.look(cross_context).keep, x)
        sources = SourceKeys(self.sources(self.wiring.memories(memory)), padding)
        mask = None if context.mask is None else additive(context.mask, x)
        no_past: Sequence[None] = [None] * len(self.layers)
        layers = DecoderPass(self.layers, Block(context, x.shape[1], mask), no_past, sources.layers, padding)
        return self.run(x, layers)

    def run(self, x: Tensor, layers: DecoderPass) -> Tensor:
        """[R, W, D] through the layers and what follows them."""
        return self.decoder.run(self.depth.flat(x), layers, layers.block.context).view(x.shape)
