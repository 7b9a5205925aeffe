"""The Transformer of the paper: each token is predicted from those before it."""

from typing import Literal

from qkv.models.decoder import Decoder
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.encoder import Encoder
from qkv.models.head import LinearHead
from qkv.models.seq2seq import Embedder, Seq2Seq


@decoders.register
class AutoregressiveConfig(DecoderConfig):
    """Token by token, left to right, as in the paper."""

    kind: Literal["autoregressive"] = "autoregressive"

    @property
    def autoregressive(self) -> bool:
        return True

    def build(
        self, src_embedder: Embedder, tgt_embedder: Embedder, encoder: Encoder, decoder: Decoder, head: LinearHead
    ) -> Seq2Seq:
        return Seq2Seq(src_embedder, tgt_embedder, encoder, decoder, head)
