"""Emit long and cut: a canvas that is surely long enough, of which everything behind the first END is ignored."""

from math import ceil
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.models.decoder import Decoder
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.decoders.nat import Inputs, opening
from qkv.models.encoder import Encoder
from qkv.models.head import LinearHead
from qkv.models.parallel import Opening, ParallelModel
from qkv.models.seq2seq import Embedder, Seq2Seq


@decoders.register
class CanvasConfig(DecoderConfig):
    """All tokens at once on a canvas of ceil(`factor` x source tokens) + `extra` positions; the output ends at END."""

    kind: Literal["canvas"] = "canvas"
    factor: float = Field(default=1.5, gt=0)
    """Positions for each source token, END counted. A target that is too long is cut, counted."""
    extra: int = Field(default=5, ge=0)
    """Positions besides."""
    tail: float = Field(default=0.1, ge=0, le=1)
    """How much each END behind the first one counts in the loss."""
    inputs: Inputs = "copy"
    """What the decoder reads: source embeddings, copied evenly, or learned queries."""

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        return ceil(self.factor * src_tokens) + self.extra

    def build(
        self, src_embedder: Embedder, tgt_embedder: Embedder, encoder: Encoder, decoder: Decoder, head: LinearHead
    ) -> Seq2Seq:
        filling = opening(self.inputs, head.weight.shape[1])
        return CanvasModel(src_embedder, tgt_embedder, encoder, decoder, head, filling, self.factor, self.extra)


class CanvasModel(ParallelModel):
    """Its canvas grows with the source only."""

    kind = "canvas"

    def __init__(
        self,
        src_embedder: Embedder,
        tgt_embedder: Embedder,
        encoder: Encoder,
        decoder: Decoder,
        head: LinearHead,
        opening: Opening,
        factor: float,
        extra: int,
    ) -> None:
        super().__init__(src_embedder, tgt_embedder, encoder, decoder, head, opening)
        self.factor = factor
        self.extra = extra

    @property
    def src_limit(self) -> int | None:
        """Its canvas must fit, too."""
        reads, writes = super().src_limit, self.tgt_embedder.positions.max_length
        return reads if reads is None or writes is None else min(reads, int((writes - self.extra) / self.factor))

    def canvas_lengths(self, src_lengths: Tensor) -> Tensor:
        """ceil(a |X|) + b for sources of these lengths [B], END included."""
        return torch.ceil(src_lengths * self.factor).long().clamp(min=1 - self.extra) + self.extra
