"""The Transformer of the paper: each token is predicted from those before it."""

from typing import Literal

from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.transformer.model import Transformer, TransformerParts


@decoders.register
class AutoregressiveConfig(DecoderConfig):
    """Token by token, left to right, as in the paper."""

    kind: Literal["autoregressive"] = "autoregressive"

    @property
    def autoregressive(self) -> bool:
        return True

    def build(self, parts: TransformerParts) -> Transformer:
        return Transformer(*parts)
