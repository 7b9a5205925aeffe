"""An LSTM encoder-decoder with additive attention (Bahdanau et al. 2015).

    h_1 ... h_n = bidirectional LSTM(E x_1 ... E x_n)
    c_t = attention(s_t-1, h)      s_t = LSTM([E y_t-1; c_t], s_t-1)      o_t = tanh(W [s_t; c_t; E y_t-1] + b)

The output head reads o_t; s_0 = tanh(W_0 mean(h) + b_0) in each layer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.layers.attention.recording import watch_attention
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.frozen import frozen_copy
from qkv.layers.recurrent import AdditiveAttention, BidirectionalLSTM, LSTMStack
from qkv.models.base import Inference, Model, Output
from qkv.models.heads.base import Head, HeadContext


class RecurrentSource(NamedTuple):
    """What each step attends to, computed once for a source."""

    src: Tensor
    """[B, S] ids"""
    keep: Tensor
    """[B, S], True = a real token."""
    memory: Tensor
    """[B, S, D], the encoder's states."""
    keys: Tensor
    """[B, S, D], the memory as the score of attention reads it."""
    pointed_at: Tensor | None
    """[B, S, D], the memory as the output head points at it; None: it does not."""

    def select(self, sentences: Tensor) -> "RecurrentSource":
        """Only these sentences, in this order; not copied if they are all of them."""
        if torch.equal(sentences, torch.arange(len(self.src), device=sentences.device)):
            return self
        pointed_at = None if self.pointed_at is None else self.pointed_at.index_select(0, sentences)
        src, keep, memory, keys = (part.index_select(0, sentences) for part in self[:4])
        return RecurrentSource(src, keep, memory, keys, pointed_at)


@dataclass(frozen=True)
class RecurrentState:
    """What the decoder knows of each row's output: the states of its cells. Row = sentence x beams + beam."""

    h: Tensor
    """[L, R, D]"""
    c: Tensor
    """[L, R, D]"""
    carried: Tensor
    """[R, S], what attention hands to the next step: the weights of the last one, or the sum of all."""
    source: RecurrentSource

    def reorder(self, rows: Tensor, sentences: Tensor) -> "RecurrentState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        h, c = (part.index_select(1, rows) for part in (self.h, self.c))
        return RecurrentState(h, c, self.carried.index_select(0, rows), self.source.select(sentences))


class RecurrentModel(Model):
    """Reads the source with a bidirectional LSTM and writes the target with an LSTM that attends to it."""

    kind = "recurrent"

    def __init__(
        self,
        src_tokens: TokenEmbedding,
        tgt_tokens: TokenEmbedding,
        encoder: BidirectionalLSTM,
        decoder: LSTMStack,
        head: Head,
        dropout: float = 0.0,
        attention: AdditiveAttention | None = None,
    ) -> None:
        super().__init__()
        d_model, layers = tgt_tokens.weight.shape[1], len(decoder.cells)
        self.src_tokens = src_tokens
        self.tgt_tokens = tgt_tokens
        self.encoder = encoder
        self.attention = attention or AdditiveAttention(d_model)
        self.first = nn.Linear(d_model, layers * d_model)
        self.decoder = decoder
        self.readout = nn.Linear(3 * d_model, d_model)
        self.dropout = Dropout(dropout)
        self.head = head

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_tokens

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> RecurrentState:
        """Read the sources; every sentence gets `beams` equal rows, with nothing decoded yet."""
        memory = self.encoder(self.dropout(self.src_tokens(src)), src_keep)
        mean = memory.sum(dim=1) / src_keep.sum(dim=1, keepdim=True)
        first = torch.tanh(self.first(mean)).unflatten(-1, (len(self.decoder.cells), -1)).transpose(0, 1)
        h = first.repeat_interleave(beams, 1)
        pointed_at = self.head.keys(memory) if self.head.needs_memory else None
        source = RecurrentSource(src, src_keep, memory, self.attention.key(memory), pointed_at)
        return RecurrentState(h, torch.zeros_like(h), self.attention.first(h.shape[1], memory), source)

    def extend(self, tokens: TgtIds, state: RecurrentState, attention: bool = False) -> tuple[Output, RecurrentState]:
        """Append the next tokens of each row [R, W], one after the other; with the weights of attention, if asked."""
        states, weights = [], []
        for embedded in self.dropout(self.tgt_tokens(tokens)).unbind(1):
            output, attended, state = self._step(embedded, state)
            states.append(output)
            weights.append(attended)
        found = torch.stack(states, dim=1)
        wanted = torch.stack(weights, dim=1) if attention or self.head.needs_attention else None
        return Output(found, self._context(state, found, wanted)), state

    def _step(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """One token of each row [R, D] to what the head reads [R, D], the weights of attention [R, S] and the state."""
        source = state.source
        context, weights = self.attention(state.h[-1], source.keys, source.memory, source.keep, state.carried)
        h, c = self.decoder(torch.cat([embedded, context], dim=-1), state.h, state.c)
        output = torch.tanh(self.readout(torch.cat([h[-1], context, embedded], dim=-1)))
        carried = self.attention.carry(state.carried, weights)
        return self.dropout(output), weights, replace(state, h=h, c=c, carried=carried)

    def _context(self, state: RecurrentState, states: Tensor, weights: Tensor | None) -> HeadContext:
        if not self.head.needs_source:
            return HeadContext(attention=weights)
        source, pointed, (rows, width, _) = state.source, None, states.shape
        src = source.src.repeat_interleave(rows // len(source.src), 0)[:, None].expand(-1, width, -1)
        if source.pointed_at is not None:
            pointed = self.head.point(states.reshape(len(source.src), -1, states.shape[-1]), source.pointed_at)
            pointed = pointed.view(src.shape)
        return HeadContext(src, weights, pointed)

    @contextmanager
    def watch_cross_attention(self, layers: Sequence[int] | None = None) -> Iterator[list[Tensor]]:
        found: list[Tensor] = []
        with watch_attention(self.attention) as steps:
            yield found
        found.append(torch.cat(steps, dim=2))

    def inference(self) -> Inference:
        return Inference(
            steps=lambda attention: RecurrentInference(self, attention),
            reason="a model of the kind recurrent takes one token after another: it can neither verify drafts nor fill "
            "a canvas; use greedy, beam, sample or mbr without drafts",
        )


class RecurrentInference:
    """It copies the weights as they are now: make a new one after they have changed.

    Args:
        model: A recurrent model.
        attention: Give the weights of attention with every output, whatever the head needs.
    """

    def __init__(self, model: RecurrentModel, attention: bool = False) -> None:
        self.model = frozen_copy(model)
        self.head = self.model.head
        self.attention = attention

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> RecurrentState:
        """Read the sources [B, S]."""
        return self.model.start(src, src_keep, beams)

    def extend(self, tokens: Tensor, state: RecurrentState) -> tuple[Output, RecurrentState]:
        """Append the next tokens of each row [R, W]."""
        return self.model.extend(tokens, state, self.attention)
