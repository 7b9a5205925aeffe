"""Decoder kinds, autoregressive and not: one file per kind."""

from typing import Annotated

from qkv.models.decoders import autoregressive, canvas, ctc, dag, mask_predict, nat
from qkv.models.decoders.base import DecoderConfig, decoders

AnyDecoder = Annotated[DecoderConfig, decoders]

__all__ = ["AnyDecoder", "DecoderConfig", "autoregressive", "canvas", "ctc", "dag", "decoders", "mask_predict", "nat"]
