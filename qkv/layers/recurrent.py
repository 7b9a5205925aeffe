"""Recurrent layers: a bidirectional LSTM over a padded batch, a stack of LSTM cells, and additive attention."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.core.shapes import SrcKeep
from qkv.functional.attention import masked_softmax
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.attention.scores import Additive
from qkv.layers.dropout import Dropout


class BidirectionalLSTM(nn.Module):
    """h_j = [forward LSTM(x_1 ... x_j); backward LSTM(x_n ... x_j)], each half as wide as the result."""

    def __init__(self, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        between = dropout if num_layers > 1 else 0.0
        self.lstm = nn.LSTM(d_model, d_model // 2, num_layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, x: Tensor, keep: SrcKeep) -> Tensor:
        """[B, S, D] to [B, S, D]; padding stands behind the real tokens, and its result is 0."""
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


class AdditiveAttention(nn.Module):
    """a_j = softmax_j v·tanh(W q + U k_j); context = Σ_j a_j k_j (Bahdanau et al. 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model)
        self.score = Additive(1, d_model)

    def forward(self, q: Tensor, keys: Tensor, memory: Tensor, keep: SrcKeep) -> tuple[Tensor, Tensor]:
        """Queries [R, D] to contexts [R, D] and weights [R, S].

        `keys` [B, S, D] are `self.key(memory)`, computed once. Rows of one sentence follow each other, R / B of them.
        """
        queries = self.query(q).view(len(memory), 1, -1, q.shape[-1])
        weights = masked_softmax(self.score(queries, keys[:, None]), keep[:, None, None])
        report(self.attention_id, lambda: weights)
        context = weights[:, 0] @ memory
        return context.flatten(0, 1), weights.flatten(0, 2)
