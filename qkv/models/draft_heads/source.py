"""A draft of the whole output from the source alone: CTC on the encoder's output."""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from qkv.core.shapes import SrcKeep
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.multi_head import MultiHeadAttention
from qkv.layers.feed_forward import ReluFeedForward
from qkv.layers.positions.sinusoidal import Sinusoidal
from qkv.layers.residual.pre import PreNorm
from qkv.models.draft_heads.base import DraftHead, DraftHeadConfig, draft_heads
from qkv.models.transformer.encoder import EncoderLayer


@draft_heads.register
class SourceConfig(DraftHeadConfig):
    """A few layers on the upsampled memory, one pass per sentence; repeated tokens and blanks collapse."""

    kind: Literal["source"] = "source"
    layers: int = Field(default=1, ge=0, le=100)
    """Number of its self-attention layers."""
    upsample: int = Field(default=2, ge=1, le=100)
    """Positions for each source token, END counted; a target that does not fit is left out of training, counted."""
    d_ff: int | None = Field(default=None, ge=1)
    """Inner width of its feed-forward networks; null: that of the model."""
    negatives: int | None = Field(default=None, ge=1)
    """In training, probabilities are over the tokens of the batch and so many others drawn at random, which is faster
    for a large vocabulary; null: over all tokens."""

    def build(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> "SourceHead":
        sizes = (d_model, num_heads, self.d_ff or d_ff)
        return SourceHead(self.layers, self.upsample, *sizes, dropout, self.negatives)


class SourceHead(DraftHead):
    """x_(u s + i) = memory_s U_i + PE, layers, norm: vectors for the model's own output head and one more for blank."""

    def __init__(
        self,
        layers: int,
        upsample: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        negatives: int | None = None,
    ) -> None:
        super().__init__()
        self.upsample = upsample
        self.negatives = negatives
        self.positions = Sinusoidal(d_model)
        self.spread = nn.Linear(d_model, upsample * d_model)
        nn.init.xavier_uniform_(self.spread.weight)
        nn.init.zeros_(self.spread.bias)
        self.layers = nn.ModuleList(
            EncoderLayer(
                MultiHeadAttention(d_model, num_heads),
                ReluFeedForward(d_model, d_ff, dropout),
                [PreNorm(d_model, dropout), PreNorm(d_model, dropout)],
            )
            for _ in range(layers)
        )
        self.final = nn.LayerNorm(d_model)
        self.blank = nn.Parameter(torch.zeros(1, d_model))

    def forward(self, memory: Float[Tensor, "B S D"], src_keep: SrcKeep) -> Float[Tensor, "B P D"]:
        """P = u S positions; those of padding are undefined."""
        x = self.opened(memory)
        pos = torch.arange(x.shape[1], device=x.device)
        context = AttentionContext(pos, pos, keep=self.kept(src_keep))
        for layer in self.layers:
            x = layer(x, context)
        vectors: Tensor = self.final(x)
        return vectors

    def opened(self, memory: Tensor) -> Tensor:
        """What the layers read, [B, S, D] -> [B, u S, D]."""
        x = self.spread(memory).unflatten(-1, (self.upsample, -1)).flatten(1, 2)
        return self.positions.embed(x, torch.arange(x.shape[1], device=x.device))

    def kept(self, src_keep: Tensor) -> Tensor:
        """[B, S] -> [B, u S]"""
        return src_keep.repeat_interleave(self.upsample, dim=1)
