"""ByteNet: neural machine translation in linear time (Kalchbrenner et al. 2016).

    encoder: dilated convolutions over the source, extended by zeros to ceil(ratio |X|) columns
    decoder: input t = W [E y_t-1; column t] + b, then causal dilated convolutions

There is no attention: output t reads column t of the encoder ("dynamic unfolding"), and zeros after the last column.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.frozen import frozen_copy
from qkv.models.base import Inference, Model, Output
from qkv.models.bytenet.layers import ByteNetDecoder, ByteNetEncoder
from qkv.models.heads.base import Head


@dataclass(frozen=True)
class ByteNetState:
    """What the decoder needs of the tokens before. Row = sentence x beams + beam."""

    pasts: tuple[Tensor, ...]
    """[R, span, D / 2] for each block: the last inputs of its convolution."""
    length: int
    """The number of tokens so far."""
    columns: Tensor
    """[B, T', D], the result of the encoder."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "ByteNetState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        pasts = tuple(past.index_select(0, rows) for past in self.pasts)
        return ByteNetState(pasts, self.length, self.columns.index_select(0, sentences))


class ByteNet(Model):
    """Two stacks of dilated convolutions, the decoder on top of the encoder."""

    kind = "bytenet"

    def __init__(
        self,
        src_tokens: TokenEmbedding,
        tgt_tokens: TokenEmbedding,
        encoder: ByteNetEncoder,
        decoder: ByteNetDecoder,
        head: Head,
        length_ratio: float = 1.2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_model = tgt_tokens.weight.shape[1]
        self.src_tokens, self.tgt_tokens = src_tokens, tgt_tokens
        self.encoder = encoder
        self.enter = nn.Linear(2 * d_model, d_model)
        self.decoder = decoder
        self.final = nn.LayerNorm(d_model)
        self.length_ratio = length_ratio
        self.dropout = Dropout(dropout)
        self.head = head

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_tokens

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> ByteNetState:
        """Read the sources; every sentence gets `beams` equal rows, with nothing decoded yet."""
        columns = self.encode(src, src_keep)
        return ByteNetState(self.decoder.begin(columns, len(src) * beams), 0, columns)

    def encode(self, src: SrcIds, src_keep: SrcKeep) -> Tensor:
        """[B, T', D], T' = ceil(ratio |X|) of the longest source; the columns beyond a sentence's own are zero."""
        counts = torch.tensor([math.ceil(self.length_ratio * length) for length in src_keep.sum(dim=1).tolist()])
        width = max(src.shape[1], int(counts.max()))
        embedded = self.dropout(self.src_tokens(src)) * src_keep[..., None]
        keep = torch.arange(width, device=src.device) < counts.to(src.device)[:, None]
        columns: Tensor = self.encoder(F.pad(embedded, (0, 0, 0, width - src.shape[1])), keep)
        return columns

    def extend(self, tokens: TgtIds, state: ByteNetState) -> tuple[Output, ByteNetState]:
        """Append the next W tokens of each row [R, W], all in one pass."""
        width = tokens.shape[1]
        columns = state.columns[:, state.length : state.length + width]
        columns = F.pad(columns, (0, 0, 0, width - columns.shape[1]))
        columns = columns.repeat_interleave(len(tokens) // len(columns), 0)
        x = self.enter(torch.cat([self.dropout(self.tgt_tokens(tokens)), columns], dim=-1))
        x, pasts = self.decoder(x, state.pasts)
        states = self.dropout(F.relu(self.final(x)))
        return Output(states), replace(state, pasts=pasts, length=state.length + width)

    def inference(self) -> Inference:
        return Inference(
            steps=lambda attention: frozen_copy(self),
            reason="a model of the kind bytenet keeps only its last inputs: it can neither verify drafts nor fill a "
            "canvas; use greedy, beam, sample or mbr without drafts",
        )
