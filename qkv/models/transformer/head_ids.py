"""The attention heads of a Transformer by name."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from qkv.layers.attention import Attention
from qkv.models.transformer.decoder import DecoderLayer
from qkv.models.transformer.encoder import EncoderLayer
from qkv.models.transformer.model import Transformer

Side = Literal["encoder", "decoder", "cross"]
SIDES: tuple[Side, ...] = ("encoder", "decoder", "cross")


class HeadId(NamedTuple):
    """One head of a model; layer and head count from 1."""

    side: Side
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.side} {self.layer}.{self.head}"


class AttentionPlace(NamedTuple):
    """One attention of a model; the layer counts from 1."""

    side: Side
    layer: int
    attention: Attention

    @property
    def heads(self) -> list[HeadId]:
        return [HeadId(self.side, self.layer, head + 1) for head in range(self.attention.num_heads)]


def attentions_of(model: Transformer) -> Iterator[AttentionPlace]:
    """Every attention in the order in which a pass comes to them; a layer that depths share comes once for each."""
    yield from _places(list(model.encoder.in_order()), list(model.decoder.in_order()))


def own_attentions(model: Transformer) -> Iterator[AttentionPlace]:
    """Every attention with weights of its own, once."""
    encoder = [cast(EncoderLayer, layer) for layer in model.encoder.layers]
    yield from _places(encoder, [cast(DecoderLayer, layer) for layer in model.decoder.layers])


def _places(encoder: list[EncoderLayer], decoder: list[DecoderLayer]) -> Iterator[AttentionPlace]:
    for number, encoder_layer in enumerate(encoder, start=1):
        yield AttentionPlace("encoder", number, encoder_layer.attention)
    for number, layer in enumerate(decoder, start=1):
        yield AttentionPlace("decoder", number, layer.attention)
        yield AttentionPlace("cross", number, layer.cross_attention)
