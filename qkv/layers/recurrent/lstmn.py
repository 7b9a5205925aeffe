"""Self-attention inside a recurrent encoder: the LSTMN (Cheng, Dong and Lapata 2016).

    a_ti = softmax_i v·tanh(W_h h_i + W_x x_t + W_s s_t-1),  i < t       s_t = Σ_i a_ti h_i       m_t = Σ_i a_ti c_i
    h_t, c_t = LSTM(x_t, (s_t, m_t))

An LSTM carries one state from step to step. Here a step may fetch any earlier one, and what it starts from is a mean of
them: with all the weight on i = t - 1, it is the LSTM again.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.core.shapes import SrcKeep
from qkv.functional.attention import masked_softmax
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.attention.scores import Additive
from qkv.layers.dropout import Dropout
from qkv.layers.recurrent.cells import Cells
from qkv.layers.recurrent.encoders import Encoded, RecurrentEncoderConfig, recurrent_encoders


@recurrent_encoders.register
class LSTMNConfig(RecurrentEncoderConfig):
    """An LSTM whose every state attends to all states before it (Cheng et al. 2016)."""

    kind: Literal["lstmn"] = "lstmn"

    def problem(self, cell: Cells, d_model: int) -> str | None:
        return None if cell == "lstm" else f"encoder lstmn is made of LSTM cells, not {cell}; use cell lstm"

    def build(self, cell: Cells, d_model: int, num_layers: int, dropout: float) -> nn.Module:
        return LSTMNEncoder(d_model, num_layers, dropout)


class LSTMNEncoder(nn.Module):
    """Layers of an LSTMN; it reads from left to right."""

    def __init__(self, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LSTMNLayer(d_model) for _ in range(num_layers))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, keep: SrcKeep) -> Encoded:
        for number, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if number else x)
        states = x * keep[..., None]
        ends = (keep.sum(dim=1) - 1)[:, None, None].expand(-1, 1, x.shape[-1])
        return Encoded(states, states.gather(1, ends)[:, 0])


class LSTMNLayer(nn.Module):
    """One layer; `cell` is an ordinary LSTM cell that starts each step from what was attended to."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.input = nn.Linear(d_model, d_model)
        self.before = nn.Linear(d_model, d_model, bias=False)
        self.score = Additive(1, d_model)
        self.cell = nn.LSTMCell(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] to the states [B, S, D]."""
        attended = carried = x.new_zeros(len(x), x.shape[-1])
        inputs = self.input(x)
        states, memories, keys, rows = (list[Tensor]() for _ in range(4))
        for step, token in enumerate(x.unbind(1)):
            row = x.new_zeros(len(x), 0)
            if step:
                row = self.weights(inputs[:, step] + self.before(attended), torch.stack(keys, dim=1))
                attended = (row[:, None] @ torch.stack(states, dim=1))[:, 0]
                carried = (row[:, None] @ torch.stack(memories, dim=1))[:, 0]
            h, c = self.cell(token, (attended, carried))
            for tape, new in ((states, h), (memories, c), (keys, self.key(h)), (rows, row)):
                tape.append(new)
        report(self.attention_id, lambda: _matrix(rows))
        return torch.stack(states, dim=1)

    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """[B, K] of a query [B, D] and keys [B, K, D]."""
        return masked_softmax(self.score(query[:, None, None], keys[:, None])).to(keys.dtype)[:, 0, 0]


def _matrix(rows: list[Tensor]) -> Tensor:
    """Rows of growing length as weights [B, 1, S, S]."""
    width = len(rows)
    padded = [torch.nn.functional.pad(row, (0, width - row.shape[1])) for row in rows]
    return torch.stack(padded, dim=1)[:, None]
