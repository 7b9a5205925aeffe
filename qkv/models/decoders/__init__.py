"""How the output comes about, token by token or all at once: one file a kind."""

from typing import Annotated

from qkv.models.decoders import autoregressive, canvas, ctc, dag, mask_predict, nat
from qkv.models.decoders.base import DecoderConfig, decoders

AnyDecoder = Annotated[DecoderConfig, decoders]

__all__ = ["AnyDecoder", "DecoderConfig", "autoregressive", "canvas", "ctc", "dag", "decoders", "mask_predict", "nat"]
