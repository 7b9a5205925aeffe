"""The bidirectional text encoder of BERT (Devlin et al. 2019), which several heads share."""

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.functional.masking.segments import segment_ids
from qkv.layers.attention import FullConfig
from qkv.layers.attention.context import AttentionContext
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import PlainEmbedding
from qkv.layers.positions import Positions
from qkv.layers.positions.learned import Learned
from qkv.layers.residual import AnyResidual, PostNormConfig
from qkv.models.language.config import STD, OneStackConfig, initialise
from qkv.models.transformer.encoder import Encoder
from qkv.models.transformer.global_tokens import find_global_tokens
from qkv.text import SPECIAL, TokenizerPair
from qkv.text.extra.segments import segmented


class TextEncoderConfig(OneStackConfig):
    """Base class of models on the encoder of BERT."""

    residual: AnyResidual = PostNormConfig()
    """Placement of the layer norm."""
    num_segments: int = Field(default=2, ge=1, le=1 << 16)
    """Segments of a text, such as question and answer, each with a learned vector; </s> ends each of them."""
    norm_eps: float = Field(default=1e-12, gt=0, le=1)
    """Added to the variance in every layer norm."""

    separator: str | None = Field(default=None, min_length=1)
    """What stands between the segments of a text in its file, such as `|||`; null: every text is one segment."""

    def tokenizers(self, pair: TokenizerPair) -> TokenizerPair:
        """With </s> in the place of the separator."""
        src = segmented(pair.src, self.separator)
        return TokenizerPair(src, src if pair.shared else pair.tgt)

    def build_encoder(self, tokenizers: TokenizerPair) -> "TextEncoder":
        """With fresh weights."""
        positions, stack = self.build_stack(causal=False)
        tokens = PlainEmbedding(len(tokenizers.src), self.d_model, tokenizers.src.special.pad, STD)
        initialise([stack], 1)
        for layer in stack.in_order():
            nn.init.normal_(layer.attention.output.weight, std=STD)
        encoder = TextEncoder(tokens, positions, stack, self.num_segments, self.dropout)
        for module in encoder.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = self.norm_eps
        find_global_tokens(stack, tokenizers, "model.attention")
        return encoder


class TextEncoder(nn.Module):
    """LN(token + position + segment) through a stack of self-attention: ids [B, S] to states [B, S, D]."""

    def __init__(
        self, tokens: PlainEmbedding, positions: Positions, stack: Encoder, num_segments: int, dropout: float
    ) -> None:
        super().__init__()
        width = tokens.weight.shape[1]
        self.tokens = tokens
        self.positions = positions
        self.segments = nn.Parameter(torch.empty(num_segments, width).normal_(std=STD))
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.stack = stack
        if isinstance(positions, Learned):
            nn.init.normal_(positions.weight, std=STD)

    def forward(self, src: Tensor, src_keep: Tensor, segments: Tensor | None = None) -> Tensor:
        """`segments` [B, S]: the segment of each token; None: a new one begins behind each </s>."""
        pos = torch.arange(src.shape[1], device=src.device)
        if segments is None:
            segments = segment_ids(src, SPECIAL.eos, len(self.segments))
        embedded = self.dropout(self.norm(self.positions.embed(self.tokens(src) + self.segments[segments], pos)))
        states: Tensor = self.stack(embedded, AttentionContext(pos, pos, keep=src_keep, tokens=src))
        return states


def require_full_attention(config: OneStackConfig) -> None:
    if not isinstance(config.attention, FullConfig):
        raise ValueError(f"attention {config.attention.kind} is not for {config.kind}; use full")
