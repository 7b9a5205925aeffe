"""A recurrent encoder-decoder. `decoders.py` has its decoders: with attention before or after a step, or without.

    h_1 ... h_n = encoder(E x_1 ... E x_n)        s_0 = tanh(W_0 mean(h) + b_0), or of the last state, in each layer

A decoder makes o_t of s_t-1, h and E y_t-1; the output head reads o_t.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.layers.attention.recording import watch_attention
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.frozen import frozen_copy
from qkv.layers.recurrent import CellStack, Encoded, RecurrentAttention
from qkv.models.base import Inference, Model, Output
from qkv.models.heads.base import Head, HeadContext, padded_source
from qkv.models.recurrent.state import RecurrentSource, RecurrentState


class RecurrentModel(Model):
    """Reads the source with a recurrent encoder and writes the target with recurrent cells; a subclass says how.

    Args:
        from_last: Compute the decoder's first state from the encoder's last one, instead of the mean of all.
    """

    kind = "recurrent"
    read_by_cells: ClassVar[int]
    """How many vectors [D] the cells read at each step."""
    read_out: ClassVar[int]
    """Of how many vectors [D] an output is made."""

    def __init__(
        self,
        src_tokens: TokenEmbedding,
        tgt_tokens: TokenEmbedding,
        encoder: nn.Module,
        decoder: CellStack,
        head: Head,
        dropout: float = 0.0,
        attention: RecurrentAttention | None = None,
        from_last: bool = False,
    ) -> None:
        super().__init__()
        d_model, layers = tgt_tokens.weight.shape[1], len(decoder.cells)
        self.src_tokens = src_tokens
        self.tgt_tokens = tgt_tokens
        self.encoder = encoder
        self.attention = attention
        self.first = nn.Linear(d_model, layers * d_model)
        self.decoder = decoder
        self.readout = nn.Linear(self.read_out * d_model, d_model)
        self.dropout = Dropout(dropout)
        self.head = head
        self.from_last = from_last

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_tokens

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> RecurrentState:
        """Read the sources; every sentence gets `beams` equal rows, with nothing decoded yet."""
        encoded: Encoded = self.encoder(self.dropout(self.src_tokens(src)), src_keep)
        memory = encoded.states
        summary = encoded.last if self.from_last else memory.sum(dim=1) / src_keep.sum(dim=1, keepdim=True)
        first = torch.tanh(self.first(summary)).unflatten(-1, (len(self.decoder.cells), -1)).transpose(0, 1)
        h = first.repeat_interleave(beams, 1)
        keys, carried = memory, memory.new_zeros(h.shape[1], 0)
        if self.attention is not None:
            keys, carried = self.attention.keys(memory), self.attention.first(h.shape[1], memory)
        pointed_at = self.head.keys(memory) if self.head.needs_memory else None
        source = RecurrentSource(padded_source(src, src_keep), src_keep, memory, keys, pointed_at)
        return RecurrentState(self.decoder.first(h), carried, torch.zeros_like(h[0]), source)

    def extend(self, tokens: TgtIds, state: RecurrentState, attention: bool = False) -> tuple[Output, RecurrentState]:
        """Append the next tokens of each row [R, W]; with the weights of attention, if asked."""
        found, weights, state = self.decode(self.dropout(self.tgt_tokens(tokens)), state)
        wanted = weights if attention or self.head.needs_attention else None
        return Output(found, self._context(state, found, wanted)), state

    def decode(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """Embedded tokens [R, W, D] to what the head reads [R, W, D], the weights [R, W, S] and the state."""
        raise NotImplementedError

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
        if self.attention is None:
            raise UsageError("a recurrent model with attention none has no cross-attention")
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
