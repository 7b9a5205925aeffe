"""A bidirectional LSTM over a padded batch, and a stack of LSTM cells."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.core.shapes import SrcKeep
from qkv.layers.dropout import Dropout


class BidirectionalLSTM(nn.Module):
    """h_j = [forward LSTM(x_1 ... x_j); backward LSTM(x_n ... x_j)], each half as wide as the result."""

    def __init__(self, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        between = dropout if num_layers > 1 else 0.0
        self.lstm = nn.LSTM(d_model, d_model // 2, num_layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, x: Tensor, keep: SrcKeep) -> Tensor:
        """[B, S, D] to [B, S, D]; sequences are padded on the right, and the states of padding are 0."""
        packed = pack_padded_sequence(x, keep.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
        return states


class LSTMStack(nn.Module):
    """One step of LSTM cells, each on top of the other: h, c = LSTM(x, h, c)."""

    def __init__(self, input_width: int, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [input_width, *[d_model] * (num_layers - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(width, d_model) for width in widths)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """x [R, input width] and the states [L, R, D] of all cells to their next states; h[-1] is the result."""
        hidden, cells = [], []
        for number, cell in enumerate(self.cells):
            x = self.dropout(x) if number else x
            x, carried = cell(x, (h[number], c[number]))
            hidden.append(x)
            cells.append(carried)
        return torch.stack(hidden), torch.stack(cells)
