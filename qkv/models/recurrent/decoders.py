"""Where attention stands in a step of a recurrent decoder: before the cells, after them, or nowhere.

    before (Bahdanau et al. 2015)      c_t = attention(s_t-1, h)         s_t = cell([E y_t-1; c_t], s_t-1)
                                       o_t = tanh(W [s_t; c_t; E y_t-1] + b)
    after (Luong et al. 2015)          s_t = cell(E y_t-1, s_t-1)        c_t = attention(s_t, h)
                                       o_t = tanh(W [c_t; s_t] + b)
    after, with input feeding          s_t = cell([E y_t-1; o_t-1], s_t-1), the rest the same
    none (Sutskever et al. 2014)       s_t = cell(E y_t-1, s_t-1)        o_t = tanh(W [s_t; E y_t-1] + b)

Where the cells read nothing that attention gave, all target positions are computed at once in training, by PyTorch's
kernels. Otherwise each step waits for the one before.
"""

from dataclasses import replace

import torch
from torch import Tensor

from qkv.layers.recurrent import RecurrentAttention
from qkv.models.recurrent.model import RecurrentModel
from qkv.models.recurrent.state import RecurrentState


class AttendingModel(RecurrentModel):
    """Attends to the source."""

    attention: RecurrentAttention

    def attend(self, q: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """Queries [R, W, D] to contexts [R, W, D], weights [R, W, S], and the state with what attention hands on."""
        source = state.source
        context, weights, carried = self.attention(q, source.keys, source.memory, source.keep, state.carried)
        return context, weights, replace(state, carried=carried)


class SteppingModel(AttendingModel):
    """The cells read what attention gave, so that the steps are taken one after the other, in training too."""

    def decode(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        states, weights = [], []
        for token in embedded.unbind(1):
            row, state = self.step(token, state)
            states.append(state.output)
            weights.append(row)
        return torch.stack(states, dim=1), torch.cat(weights, dim=1), state

    def step(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """The weights [R, 1, S] and the state after the next token of each row [R, D]."""
        raise NotImplementedError


class AttendsBefore(SteppingModel):
    """Attention reads the last state, and the cells read its context."""

    read_by_cells, read_out = 2, 3

    def step(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        contexts, weights, state = self.attend(state.cells[0][-1][:, None], state)
        context = contexts[:, 0]
        cells = self.decoder(torch.cat([embedded, context], dim=-1), state.cells)
        output = torch.tanh(self.readout(torch.cat([cells[0][-1], context, embedded], dim=-1)))
        return weights, replace(state, cells=cells, output=self.dropout(output))


class FeedsInput(SteppingModel):
    """Attention reads the new state, and the cells read the last output."""

    read_by_cells, read_out = 2, 2

    def step(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        cells = self.decoder(torch.cat([embedded, state.output], dim=-1), state.cells)
        contexts, weights, state = self.attend(cells[0][-1][:, None], state)
        output = torch.tanh(self.readout(torch.cat([contexts[:, 0], cells[0][-1]], dim=-1)))
        return weights, replace(state, cells=cells, output=self.dropout(output))


class AttendsAfter(AttendingModel):
    """Attention reads the new states, and the cells read nothing of it."""

    read_by_cells, read_out = 1, 2

    def decode(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        states, cells = self.decoder.run(embedded, state.cells)
        context, weights, state = self.attend(states, state)
        outputs = self.dropout(torch.tanh(self.readout(torch.cat([context, states], dim=-1))))
        return outputs, weights, replace(state, cells=cells)


class FixedVector(RecurrentModel):
    """Knows of the source what its first state holds."""

    read_by_cells, read_out = 1, 2

    def decode(self, embedded: Tensor, state: RecurrentState) -> tuple[Tensor, None, RecurrentState]:
        states, cells = self.decoder.run(embedded, state.cells)
        outputs = self.dropout(torch.tanh(self.readout(torch.cat([states, embedded], dim=-1))))
        return outputs, None, replace(state, cells=cells)
