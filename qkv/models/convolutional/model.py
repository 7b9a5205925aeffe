"""ConvS2S: convolutional sequence-to-sequence learning (Gehring et al. 2017).

    encoder: h = sqrt(1/2) (h + GLU(conv(h)))                        z = W h + b
    decoder: y = GLU(causal conv(h))                                 h = sqrt(1/2) (h + sqrt(1/2) (y + attention(y)))
    attention in every layer: softmax(q·z) over z + e, with q from y and the embedding of the previous token

All target positions are computed at once in training; at inference, a layer keeps its last kernel - 1 inputs.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.layers.attention.recording import watch_attention
from qkv.layers.convolution import normalised_linear, without_weight_norm
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.positions import Positions
from qkv.models.base import Inference, MaxLengths, Model, Output
from qkv.models.convolutional.layers import (
    HALF,
    ConvolutionalDecoderLayer,
    ConvolutionalEncoder,
    ConvolutionalSource,
    scaled_gradient,
)
from qkv.models.heads.base import Head, HeadContext


@dataclass(frozen=True)
class ConvolutionalState:
    """What the decoder needs of the tokens before. Row = sentence x beams + beam."""

    past: Tensor
    """[L, R, kernel - 1, C]: the last inputs of each layer's convolution, zeros before the beginning."""
    length: int
    """The number of tokens so far."""
    source: ConvolutionalSource

    def reorder(self, rows: Tensor, sentences: Tensor) -> "ConvolutionalState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        return ConvolutionalState(self.past.index_select(1, rows), self.length, self.source.select(sentences))


class ConvolutionalModel(Model):
    """Reads the source and writes the target with gated convolutions; every decoder layer attends to the source."""

    kind = "convolutional"

    def __init__(
        self,
        src_tokens: TokenEmbedding,
        tgt_tokens: TokenEmbedding,
        src_positions: Positions,
        tgt_positions: Positions,
        encoder: ConvolutionalEncoder,
        layers: Sequence[ConvolutionalDecoderLayer],
        width: int,
        head: Head,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_model = tgt_tokens.weight.shape[1]
        self.src_tokens, self.tgt_tokens = src_tokens, tgt_tokens
        self.src_positions, self.tgt_positions = src_positions, tgt_positions
        self.encoder = encoder
        self.enter = normalised_linear(d_model, width, dropout)
        self.layers = nn.ModuleList(layers)
        self.leave = normalised_linear(width, d_model)
        self.dropout = Dropout(dropout)
        self.head = head

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.src_positions.max_length, self.tgt_positions.max_length)

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_tokens

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> ConvolutionalState:
        """Read the sources; every sentence gets `beams` equal rows, with nothing decoded yet."""
        pos = torch.arange(src.shape[1], device=src.device)
        embedded = self.dropout(self.src_positions.embed(self.src_tokens(src), pos)) * src_keep[..., None]
        # Each of the L attentions sends two gradients, through keys and values.
        z = scaled_gradient(self.encoder(embedded, src_keep), 1 / (2 * len(self.layers)))
        source = ConvolutionalSource(src_keep, z, (z + embedded) * HALF)
        span = self.in_order()[0].convolution.span
        past = z.new_zeros(len(self.layers), len(src) * beams, span, self.enter.out_features)
        return ConvolutionalState(past, 0, source)

    def extend(self, tokens: TgtIds, state: ConvolutionalState) -> tuple[Output, ConvolutionalState]:
        """Append the next W tokens of each row [R, W], all in one pass."""
        pos = torch.arange(state.length, state.length + tokens.shape[1], device=tokens.device)
        embedded = self.dropout(self.tgt_positions.embed(self.tgt_tokens(tokens), pos))
        h, pasts, weights = self.enter(embedded), [], torch.empty(0)
        for layer, past in zip(self.in_order(), state.past, strict=True):
            h, past, weights = layer(h, past, embedded, state.source)
            pasts.append(past)
        states = self.dropout(self.leave(h))
        after = replace(state, past=torch.stack(pasts), length=state.length + tokens.shape[1])
        return Output(states, HeadContext(attention=weights)), after

    def in_order(self) -> list[ConvolutionalDecoderLayer]:
        return cast(list[ConvolutionalDecoderLayer], list(self.layers))

    @contextmanager
    def watch_cross_attention(self, layers: Sequence[int] | None = None) -> Iterator[list[Tensor]]:
        chosen = [layer for number, layer in enumerate(self.in_order(), 1) if layers is None or number in layers]
        found: list[Tensor] = []
        with ExitStack() as stack:
            watched = [stack.enter_context(watch_attention(layer.attention)) for layer in chosen]
            yield found
        for passes in watched:
            found += passes

    def inference(self) -> Inference:
        return Inference(
            steps=lambda attention: without_weight_norm(self),
            reason="a model of the kind convolutional keeps only its last inputs: it can neither verify drafts nor "
            "fill a canvas; use greedy, beam, sample or mbr without drafts",
        )
