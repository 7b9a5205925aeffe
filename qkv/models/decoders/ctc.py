"""CTC (Libovický & Helcl 2018): a canvas longer than the source, most of whose positions say blank."""

from math import ceil
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.functional.copying import repetition
from qkv.models.decoder import Decoder
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.encoder import Encoder
from qkv.models.head import LinearHead
from qkv.models.parallel import CopiedSource, Opening, ParallelModel
from qkv.models.seq2seq import Embedder, Seq2Seq


@decoders.register
class CtcConfig(DecoderConfig):
    """One pass over an upsampled source; equal neighbours and blanks collapse, so no length need be known."""

    kind: Literal["ctc"] = "ctc"
    upsample: float = Field(default=2.0, ge=1)
    """Positions of the canvas for each source token, END counted. A target that does not fit is left out, counted."""

    @property
    def own_ids(self) -> int:
        return 1

    @property
    def glances(self) -> bool:
        return True

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        return ceil(self.upsample * src_tokens)

    def build(
        self, src_embedder: Embedder, tgt_embedder: Embedder, encoder: Encoder, decoder: Decoder, head: LinearHead
    ) -> Seq2Seq:
        opening = CopiedSource(repetition, with_end=True)
        return CtcModel(src_embedder, tgt_embedder, encoder, decoder, head, opening, self.upsample)


class CtcModel(ParallelModel):
    """The last id of the output is the blank."""

    kind = "ctc"

    def __init__(
        self,
        src_embedder: Embedder,
        tgt_embedder: Embedder,
        encoder: Encoder,
        decoder: Decoder,
        head: LinearHead,
        opening: Opening,
        upsample: float,
    ) -> None:
        super().__init__(src_embedder, tgt_embedder, encoder, decoder, head, opening)
        self.upsample = upsample

    @property
    def blank(self) -> int:
        return len(self.head.weight) - 1

    @property
    def src_limit(self) -> int | None:
        """Its canvas must fit, too."""
        reads, writes = super().src_limit, self.tgt_embedder.positions.max_length
        return reads if reads is None or writes is None else min(reads, int(writes / self.upsample))

    def path_lengths(self, src_lengths: Tensor) -> Tensor:
        """ceil(s |X|) for sources of these lengths [B], END included."""
        return torch.ceil(src_lengths * self.upsample).long()
