"""The blocks of ConvS2S (Gehring et al. 2017): gated convolutions and attention in every decoder layer."""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.shapes import SrcKeep
from qkv.functional.attention import masked_softmax
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.convolution import GatedConvolution, append, normalised_linear
from qkv.layers.dropout import Dropout

HALF = math.sqrt(0.5)
"""Keeps the variance of a sum of two independent terms that of one of them."""


class ConvolutionalSource(NamedTuple):
    """What the decoder attends to, computed once for a source."""

    keep: Tensor
    """[B, S], True = a real token."""
    keys: Tensor
    """z [B, S, D], the result of the encoder."""
    values: Tensor
    """sqrt(1/2) (z + e) [B, S, D], with the embeddings e of the source."""

    def select(self, sentences: Tensor) -> "ConvolutionalSource":
        """Only these sentences, in this order; not copied if they are all of them."""
        if torch.equal(sentences, torch.arange(len(self.keep), device=sentences.device)):
            return self
        return ConvolutionalSource(*(part.index_select(0, sentences) for part in self))


class ConvolutionalEncoder(nn.Module):
    """h = sqrt(1/2) (h + GLU(conv(h))) in each layer, between two linear maps; the same length as its input."""

    def __init__(self, d_model: int, width: int, kernel: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.enter = normalised_linear(d_model, width, dropout)
        self.layers = nn.ModuleList(GatedConvolution(width, kernel, dropout) for _ in range(num_layers))
        self.leave = normalised_linear(width, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, embedded: Tensor, keep: SrcKeep) -> Tensor:
        """[B, S, D] to [B, S, D]; padding counts as zeros, as do the positions beyond either end."""
        real = keep[..., None]
        h = self.enter(embedded)
        for layer in cast(list[GatedConvolution], list(self.layers)):
            side = layer.span // 2
            h = (h + layer(F.pad(self.dropout(h) * real, (0, 0, side, side)))) * HALF
        z: Tensor = self.leave(h)
        return z * real


class StepAttention(nn.Module):
    """a_j = softmax_j q·z_j with q = sqrt(1/2) (W h + b + g); c = sqrt(|X|) Σ_j a_j v_j, mapped to the width of h.

    g is the embedding of the previous target token, z the result of the encoder and |X| the length of the source.
    """

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.query = normalised_linear(width, d_model)
        self.output = normalised_linear(d_model, width)

    def forward(self, h: Tensor, embedded: Tensor, source: ConvolutionalSource) -> tuple[Tensor, Tensor]:
        """States [R, W, C] and embeddings [R, W, D] to contexts [R, W, C] and weights [R, W, S].

        The rows of one sentence follow each other, R / B of them.
        """
        queries = (self.query(h) + embedded) * HALF
        by_sentence = queries.reshape(len(source.keys), 1, -1, queries.shape[-1])
        weights = masked_softmax(by_sentence @ source.keys[:, None].transpose(-1, -2), source.keep[:, None, None])
        report(self.attention_id, lambda: weights)
        lengths = source.keep.sum(dim=1)[:, None, None].to(h.dtype)
        context = (weights[:, 0].to(source.values.dtype) @ source.values) * lengths.sqrt()
        output: Tensor = self.output(context.reshape(queries.shape))
        return output, weights.reshape(*h.shape[:2], -1)


class ConvolutionalDecoderLayer(nn.Module):
    """y = GLU(causal conv(h)); h = sqrt(1/2) (h + sqrt(1/2) (y + attention(y)))."""

    def __init__(self, d_model: int, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width, kernel, dropout)
        self.attention = StepAttention(d_model, width)
        self.dropout = Dropout(dropout)

    def forward(
        self, h: Tensor, past: Tensor, embedded: Tensor, source: ConvolutionalSource
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New positions [R, W, C] behind the last inputs of the convolution [R, kernel - 1, C].

        Returns the states, the last inputs now, and the weights of attention [R, W, S].
        """
        window, past = append(past, self.dropout(h))
        y = self.convolution(window)
        context, weights = self.attention(y, embedded, source)
        return (h + (y + context) * HALF) * HALF, past, weights


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """x, with its gradient multiplied by `factor`."""
    if x.requires_grad and torch.is_grad_enabled():
        same = x.view_as(x)
        same.register_hook(lambda gradient: gradient * factor)
        return same
    return x
