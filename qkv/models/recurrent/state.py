"""What a recurrent decoder carries from step to step."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qkv.layers.recurrent import CellState


class RecurrentSource(NamedTuple):
    """What each step attends to, computed once for a source."""

    src: Tensor
    """[B, S], `padded_source`"""
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

    cells: CellState
    """[L, R, D] each"""
    carried: Tensor
    """[R, S], what attention hands to the next step: the weights of the last one, or the sum of all."""
    output: Tensor
    """[R, D], what the head read at the last step; zeros before the first one."""
    source: RecurrentSource

    def reorder(self, rows: Tensor, sentences: Tensor) -> "RecurrentState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        cells = tuple(part.index_select(1, rows) for part in self.cells)
        carried, output = (part.index_select(0, rows) for part in (self.carried, self.output))
        return RecurrentState(cells, carried, output, self.source.select(sentences))
