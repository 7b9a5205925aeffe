"""The Extended Neural GPU: can active memory replace attention? (Kaiser and Bengio 2016)

    s = the embedded source in the first row of a memory [rows, n], n = ceil(ratio |X|)
    encoder: |X| times  s = CGRU(s)
    decoder, step t:    s = CGRU(s, p)      output t reads cell t of s, and its embedding is written to cell t of p

Attention reads a few cells of a memory that stays as it is; here every step rewrites all cells at once.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.frozen import frozen_copy
from qkv.models.base import Inference, Model, Output
from qkv.models.heads.base import Head
from qkv.models.neural_gpu.layers import MemoryStep, place


@dataclass(frozen=True)
class NeuralGPUState:
    """The memory and the tape of each row. Row = sentence x beams + beam."""

    memory: Tensor
    """[R, D, rows, n]"""
    tape: Tensor
    """[R, D, rows, n], the embeddings of the outputs so far."""
    keep: Tensor
    """[R, 1, 1, n], True for the cells of the row's own memory."""
    length: int
    """The number of tokens so far."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "NeuralGPUState":
        """New row r continues old row rows[r]."""
        memory, tape, keep = (part.index_select(0, rows) for part in (self.memory, self.tape, self.keep))
        return NeuralGPUState(memory, tape, keep, self.length)


class NeuralGPU(Model):
    """A memory that is rewritten |X| times to read the source, and once for each output."""

    kind = "neural_gpu"

    def __init__(
        self,
        src_tokens: TokenEmbedding,
        tgt_tokens: TokenEmbedding,
        encoder: MemoryStep,
        decoder: MemoryStep,
        head: Head,
        rows: int = 4,
        length_ratio: float = 1.2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.src_tokens, self.tgt_tokens = src_tokens, tgt_tokens
        self.encoder, self.decoder = encoder, decoder
        self.rows = rows
        self.length_ratio = length_ratio
        self.dropout = Dropout(dropout)
        self.head = head

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_tokens

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> NeuralGPUState:
        """Read the sources; every sentence gets `beams` equal rows, with nothing decoded yet."""
        lengths = src_keep.sum(dim=1)
        counts = torch.tensor([math.ceil(self.length_ratio * length) for length in lengths.tolist()])
        cells = max(src.shape[1], int(counts.max()))
        keep = (torch.arange(cells, device=src.device) < counts.to(src.device)[:, None])[:, None, None]
        s = place(self.dropout(self.src_tokens(src)) * src_keep[..., None], self.rows, cells)
        for step in range(int(lengths.max())):
            reading = (step < lengths)[:, None, None, None]
            s = torch.where(reading, self.encoder(s, keep), s)
        s, keep = s.repeat_interleave(beams, 0), keep.repeat_interleave(beams, 0)
        return NeuralGPUState(s, torch.zeros_like(s), keep, 0)

    def extend(self, tokens: TgtIds, state: NeuralGPUState) -> tuple[Output, NeuralGPUState]:
        """Append the next tokens of each row [R, W], one after the other; the start symbol is not written."""
        states = []
        for token in self.dropout(self.tgt_tokens(tokens)).unbind(1):
            tape = _written(state.tape, token, state.length - 1) * state.keep
            memory = self.decoder(state.memory, state.keep, tape)
            states.append(_cell(memory, state.length))
            state = replace(state, memory=memory, tape=tape, length=state.length + 1)
        return Output(self.dropout(torch.stack(states, dim=1))), state

    def inference(self) -> Inference:
        return Inference(
            steps=lambda attention: frozen_copy(self),
            reason="a model of the kind neural_gpu rewrites its memory at every token: it can neither verify drafts "
            "nor fill a canvas; use greedy, beam, sample or mbr without drafts",
        )


def _written(tape: Tensor, vectors: Tensor, cell: int) -> Tensor:
    """The tape [R, D, rows, n] with vectors [R, D] in a cell of its first row; unchanged if there is no such cell."""
    if not 0 <= cell < tape.shape[3]:
        return tape
    tape = tape.clone()
    tape[:, :, 0, cell] = vectors
    return tape


def _cell(memory: Tensor, cell: int) -> Tensor:
    """A cell of the first row [R, D]; zeros behind the last one."""
    return memory[:, :, 0, cell] if cell < memory.shape[3] else torch.zeros_like(memory[:, :, 0, 0])
