"""Transformer, encoder and decoder built from sizes and called with plain tensors: for notebooks and custom loops.

The defaults are the paper's. Parts are chosen as in a recipe: by the name of a kind (`positions="rope"`) or by a dict
with its keys (`attention={"kind": "full", "kv_heads": 2}`).
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.core.shapes import Decoded, LogProbs, SrcIds, SrcKeep, TgtIds
from qkv.functional.masks import causal
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.recording import name_attentions
from qkv.models.transformer.build import build_decoder, build_encoder, build_model, build_wiring
from qkv.models.transformer.config import TransformerConfig
from qkv.text.special import SPECIAL

Kind = str | Mapping[str, Any]
"""The name of a kind, or a dict with `kind` and its keys."""


class Transformer(nn.Module):
    """The encoder-decoder Transformer, from token ids to log-probabilities.

    `model` is the module that training, searches and exports use.

    Args:
        src_vocab: number of source tokens.
        tgt_vocab: number of target tokens.
        d_model: width of the residual stream.
        layers: depth of encoder and decoder, one number for both or two.
        num_heads: attention heads; must divide `d_model`.
        d_ff: inner width of the feed-forward networks; by default 4 `d_model`.
        dropout: dropout probability of the sublayers' outputs and of the embeddings.
        attention: kind of the self-attentions (`qkv.attentions`).
        positions: kind of positions (`qkv.positions`).
        residual: placement of the layer norm (`post`, `pre`, ...).
        feed_forward: `relu`, `gelu` or `swiglu`.
        pad: padding id; these positions are masked.

    Examples:
        >>> import torch
        >>> from qkv import Transformer
        >>> model = Transformer(src_vocab=100, tgt_vocab=120, d_model=64, layers=2, num_heads=4)
        >>> src, tgt_in = torch.randint(5, 100, (3, 7)), torch.randint(5, 120, (3, 6))
        >>> log_probs = model(src, tgt_in)
        >>> log_probs.shape
        torch.Size([3, 6, 120])
        >>> loss = torch.nn.functional.nll_loss(log_probs.transpose(1, 2), tgt_in)
        >>> loss.backward()
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int = 512,
        layers: int | tuple[int, int] = 6,
        num_heads: int = 8,
        d_ff: int | None = None,
        dropout: float = 0.1,
        attention: Kind = "full",
        positions: Kind = "sinusoidal",
        residual: Kind = "post",
        feed_forward: Kind = "relu",
        pad: int = SPECIAL.pad,
    ) -> None:
        super().__init__()
        encoder_layers, decoder_layers = (layers, layers) if isinstance(layers, int) else layers
        stacks = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        attentions = {"encoder_attention": attention, "decoder_attention": attention}
        parts = {"positions": positions, "residual": residual, "feed_forward": feed_forward}
        config = _config(d_model, num_heads, d_ff, dropout, {**stacks, **attentions, **parts})
        self.pad = pad
        self.model = build_model(config, src_vocab, tgt_vocab, pad)

    def forward(self, src: SrcIds, tgt_in: TgtIds) -> LogProbs:
        """Position t predicts the token after `tgt_in[:, :t + 1]`: [B, T, V]."""
        src_keep = src != self.pad
        decoded = self.model.decode(tgt_in, self.model.encode(src, src_keep), src_keep)
        return self.model.head.log_probs(decoded)


class Encoder(nn.Module):
    """A stack of self-attention and feed-forward layers over vectors [B, S, D].

    Its arguments are those of `Transformer`.

    Examples:
        >>> import torch
        >>> from qkv import Encoder
        >>> encoder = Encoder(d_model=64, num_layers=2, num_heads=4, positions="rope", residual="pre")
        >>> x = torch.randn(3, 7, 64)
        >>> encoder(x).shape
        torch.Size([3, 7, 64])
        >>> keep = torch.arange(7) < torch.tensor([[7], [5], [2]])  # True = a real token
        >>> encoder(x, keep).shape
        torch.Size([3, 7, 64])
    """

    def __init__(
        self,
        d_model: int = 512,
        num_layers: int = 6,
        num_heads: int = 8,
        d_ff: int | None = None,
        dropout: float = 0.1,
        attention: Kind = "full",
        positions: Kind = "sinusoidal",
        residual: Kind = "post",
        feed_forward: Kind = "relu",
    ) -> None:
        super().__init__()
        stack = {"encoder_layers": num_layers, "encoder_attention": attention}
        parts = {"positions": positions, "residual": residual, "feed_forward": feed_forward}
        config = _config(d_model, num_heads, d_ff, dropout, {**stack, **parts})
        self.positions = config.positions.build(d_model, num_heads, causal=False)
        self.stack = build_encoder(config, self.positions, build_wiring(config))
        name_attentions(self)

    def forward(self, x: Float[Tensor, "B S D"], keep: Bool[Tensor, "B S"] | None = None) -> Float[Tensor, "B S D"]:
        """`keep` is True for real positions and False for padding; None: all are real."""
        pos = torch.arange(x.shape[1], device=x.device)
        states: Tensor = self.stack(self.positions.embed(x, pos), AttentionContext(pos, pos, keep=keep))
        return states


class Decoder(nn.Module):
    """A stack of causal self-attention, cross-attention and feed-forward layers over vectors [B, T, D].

    Its arguments are those of `Transformer`.

    Examples:
        >>> import torch
        >>> from qkv import Decoder
        >>> decoder = Decoder(d_model=64, num_layers=2, num_heads=4)
        >>> x, memory = torch.randn(3, 6, 64), torch.randn(3, 7, 64)
        >>> decoder(x, memory).shape
        torch.Size([3, 6, 64])
    """

    def __init__(
        self,
        d_model: int = 512,
        num_layers: int = 6,
        num_heads: int = 8,
        d_ff: int | None = None,
        dropout: float = 0.1,
        attention: Kind = "full",
        positions: Kind = "sinusoidal",
        residual: Kind = "post",
        feed_forward: Kind = "relu",
    ) -> None:
        super().__init__()
        stack = {"decoder_layers": num_layers, "decoder_attention": attention}
        parts = {"positions": positions, "residual": residual, "feed_forward": feed_forward}
        config = _config(d_model, num_heads, d_ff, dropout, {**stack, **parts})
        self.positions = config.positions.build(d_model, num_heads, causal=True)
        self.stack = build_decoder(config, self.positions, build_wiring(config))
        name_attentions(self)

    def forward(self, x: Decoded, memory: Float[Tensor, "B S D"], memory_keep: SrcKeep | None = None) -> Decoded:
        """Position t sees `x` up to t and all of `memory` where `memory_keep` [B, S] is True (None: everywhere)."""
        pos = torch.arange(x.shape[1], device=x.device)
        src_pos = torch.arange(memory.shape[1], device=x.device)
        context = AttentionContext(pos, pos, predicate=causal)
        cross_context = AttentionContext(pos, src_pos, keep=memory_keep)
        states: Tensor = self.stack(self.positions.embed(x, pos), context, memory, cross_context)
        return states


def _config(
    d_model: int, num_heads: int, d_ff: int | None, dropout: float, parts: Mapping[str, Any]
) -> TransformerConfig:
    sizes = {"d_model": d_model, "num_heads": num_heads, "d_ff": 4 * d_model if d_ff is None else d_ff}
    return TransformerConfig.model_validate({**sizes, "dropout": dropout, **parts})
