"""Recurrent cells on top of each other: one step, or a whole sequence by PyTorch's kernels.

    LSTM   i, f, o = sigmoid(W x + U h + b)     g = tanh(W x + U h + b)          c' = f c + i g     h' = o tanh(c')
    GRU    r, z = sigmoid(W x + U h + b)        n = tanh(W x + b + r (U h + b))  h' = (1 - z) n + z h

Each of i, f, o, g and r, z, n has its own W, U and b.
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from qkv.layers.dropout import Dropout

Cells = Literal["lstm", "gru"]
CellState = tuple[Tensor, ...]
"""The states [L, R, D] of all cells: h, and c if it is an LSTM."""


class CellStack(nn.Module):
    """Cells on top of each other. A subclass says which; the last h is the result."""

    cell: ClassVar[type[nn.LSTMCell | nn.GRUCell]]

    def __init__(self, input_width: int, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [input_width, *[d_model] * (num_layers - 1)]
        self.cells = nn.ModuleList(self.cell(width, d_model) for width in widths)
        self.dropout = Dropout(dropout)

    def first(self, h: Tensor) -> CellState:
        """The state before the first step, for h [L, R, D]."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: CellState) -> CellState:
        """One step: x [R, input width] and the states of all cells to their next states."""
        after = []
        for number, cell in enumerate(self.cells):
            x = self.dropout(x) if number else x
            after.append(self.step(cell, x, tuple(part[number] for part in state)))
            x = after[-1][0]
        return tuple(torch.stack(parts) for parts in zip(*after, strict=True))

    def run(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Steps one after the other: x [R, W, input width] to the last cell's h [R, W, D], and the states after them.

        Equal to `forward` on each of them, but a cell takes the whole sequence in one call.
        """
        after = []
        for number, cell in enumerate(self.cells):
            x = self.dropout(x) if number else x
            x, *last = self.sequence(x, [part[number : number + 1] for part in state], list(cell.parameters()))
            after.append(last)
        return x, tuple(torch.cat(parts) for parts in zip(*after, strict=True))

    def step(self, cell: nn.Module, x: Tensor, state: CellState) -> CellState:
        """One cell, one step: x [R, input width] and its state, [R, D] each, to its next state."""
        raise NotImplementedError

    def sequence(self, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        """One cell, a whole sequence [R, W, input width]: its outputs [R, W, D], and its state, [1, R, D] each."""
        raise NotImplementedError


class LSTMStack(CellStack):
    """Long short-term memory (Hochreiter and Schmidhuber 1997)."""

    cell = nn.LSTMCell

    def first(self, h: Tensor) -> CellState:
        return h, torch.zeros_like(h)

    def step(self, cell: nn.Module, x: Tensor, state: CellState) -> CellState:
        h, c = cell(x, state)
        return h, c

    def sequence(self, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.lstm(x, state, weights, True, 1, 0.0, self.training, False, True)


class GRUStack(CellStack):
    """Gated recurrent units (Cho et al. 2014), with the reset gate after the product, as PyTorch has it."""

    cell = nn.GRUCell

    def first(self, h: Tensor) -> CellState:
        return (h,)

    def step(self, cell: nn.Module, x: Tensor, state: CellState) -> CellState:
        return (cell(x, state[0]),)

    def sequence(self, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, ...]:
        return torch.gru(x, state[0], weights, True, 1, 0.0, self.training, False, True)


STACKS: dict[Cells, type[CellStack]] = {"lstm": LSTMStack, "gru": GRUStack}
