"""The end-to-end memory network (Sukhbaatar et al. 2015): attention over the sentences of a story, hop after hop.

    m_i = Σ_j l_j A x_ij + T_A(i)      c_i = Σ_j l_j C x_ij + T_C(i)      u = Σ_j l_j B q_j + Σ_s B y_s
    each hop:  u = u + Σ_i softmax(u·m)_i c_i                             answer = softmax(W u)

Adjacent hops share their tables: A of a hop is C of the one before, B is the first A, and W the last C. The answer's
words y so far, the start symbol included, are added to the question, so that an answer may have several words and ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from qkv.core.shapes import SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.functional.memory import linear_recall, recall
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.frozen import frozen_copy
from qkv.models.base import Inference, Model, Output
from qkv.models.heads.base import Head
from qkv.models.memory_network.sentences import split_sentences


class WordTable(TokenEmbedding):
    """E[id], drawn from N(0, 0.1²), without a scale: sentences are sums of many."""

    def __init__(self, vocab_size: int, d_model: int, pad: int) -> None:
        super().__init__(vocab_size, d_model, pad)
        self.scale = 1.0
        with torch.no_grad():
            nn.init.normal_(self.weight, std=0.1)[pad].zero_()


@dataclass(frozen=True)
class MemoryState:
    """What the answer is recalled from. Row = sentence x beams + beam."""

    memories: Tensor
    """[K + 1, B, N, D]: hop k reads keys memories[k] and values memories[k + 1]."""
    keep: Tensor
    """[B, N], True for the sentences that a story has."""
    query: Tensor
    """[R, D], the question and the words of the answer so far."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "MemoryState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        memories, keep = self.memories.index_select(1, sentences), self.keep.index_select(0, sentences)
        return MemoryState(memories, keep, self.query.index_select(0, rows))


class Hop(nn.Module):
    """u + Σ_i p_i c_i"""

    def __init__(self, linear: bool = False) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.recall = linear_recall if linear else recall

    def forward(self, u: Tensor, m: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """Queries [B, Q, D], keys and values [B, N, D]; the weights are over sentences, the newest first."""
        found, weights = self.recall(u, m, c, keep)
        report(self.attention_id, lambda: weights[:, None])
        return u + found


class MemoryNetwork(Model):
    """Answers a question about a story.

    Args:
        tables: K + 1 tables of words for K hops.
        head: It reads the last table.
        separator: The id that ends a sentence of the story.
        end: The id that ends a source.
        max_sentences: Only so many, the newest, are in the memory.
        ordered: Weigh each word by its place in its sentence.
        timed: Add a learned vector for the place of a sentence in the story.
        linear: Weights without softmax.
    """

    kind = "memory_network"

    def __init__(
        self,
        tables: Sequence[WordTable],
        head: Head,
        separator: int,
        end: int,
        max_sentences: int = 50,
        ordered: bool = True,
        timed: bool = True,
        linear: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(tables)
        self.times = nn.Parameter(torch.zeros(len(tables), max_sentences, head_width(tables))) if timed else None
        if self.times is not None:
            nn.init.normal_(self.times, std=0.1)
        self.hops = nn.ModuleList(Hop(linear) for _ in tables[1:])
        self.separator, self.end, self.max_sentences, self.ordered = separator, end, max_sentences, ordered
        self.dropout = Dropout(dropout)
        self.head = head

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        table = self.tables[0]
        assert isinstance(table, TokenEmbedding)
        return table

    def forward(self, batch: Batch) -> Output:
        return self.extend(batch.tgt_in, self.start(batch.src, batch.src_keep))[0]

    def start(self, src: SrcIds, src_keep: SrcKeep, beams: int = 1) -> MemoryState:
        """Read stories and questions; every one gets `beams` equal rows, with nothing answered yet."""
        sentences = split_sentences(src, src_keep, self.separator, self.end, self.max_sentences)
        sums = torch.stack([sentences.sums(self.dropout(table(src)), self.ordered) for table in self.tables])
        question, memories = sums[0, :, 0], sums[:, :, 1:]
        if self.times is not None:
            memories = memories + self.times[:, None, : memories.shape[2]]
        return MemoryState(memories, sentences.keep, question.repeat_interleave(beams, 0))

    def extend(self, tokens: TgtIds, state: MemoryState) -> tuple[Output, MemoryState]:
        """Append the next words of each row's answer [R, W], all in one pass."""
        queries = state.query[:, None] + self.tgt_embedding(tokens).cumsum(dim=1)
        u = queries.reshape(len(state.keep), -1, queries.shape[-1])
        for number, hop in enumerate(self.hops):
            u = hop(u, state.memories[number], state.memories[number + 1], state.keep)
        return Output(self.dropout(u.view(queries.shape))), replace(state, query=queries[:, -1])

    def inference(self) -> Inference:
        return Inference(
            steps=lambda attention: frozen_copy(self),
            reason="a model of the kind memory_network answers word by word: it can neither verify drafts nor fill a "
            "canvas; use greedy, beam, sample or mbr without drafts",
        )


def head_width(tables: Sequence[WordTable]) -> int:
    """D"""
    return tables[0].weight.shape[1]
