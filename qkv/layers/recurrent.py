"""Recurrent layers: a bidirectional LSTM over a padded batch, a stack of LSTM cells, and additive attention."""

from typing import Annotated, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.config.base import Config, Kinds
from qkv.core.shapes import SrcKeep
from qkv.functional.attention import location_aware_scores, location_features, masked_softmax, near_median
from qkv.layers.attention.cross.location_aware import odd
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


class RecurrentAttentionConfig(Config):
    """The attention of a recurrent decoder."""

    kind: str

    def build(self, d_model: int) -> "AdditiveAttention":
        raise NotImplementedError


recurrent_attentions = Kinds[RecurrentAttentionConfig]("recurrent attention")
AnyRecurrentAttention = Annotated[RecurrentAttentionConfig, recurrent_attentions]


@recurrent_attentions.register
class AdditiveAttentionConfig(RecurrentAttentionConfig):
    """By content (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"

    def build(self, d_model: int) -> "AdditiveAttention":
        return AdditiveAttention(d_model)


class AdditiveAttention(nn.Module):
    """a_j = softmax_j v·tanh(W q + U k_j); context = Σ_j a_j k_j (Bahdanau et al. 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model)
        self.score = Additive(1, d_model)

    def forward(self, q: Tensor, keys: Tensor, memory: Tensor, keep: SrcKeep, before: Tensor) -> tuple[Tensor, Tensor]:
        """Queries [R, D] to contexts [R, D] and weights [R, S]; `before` [R, S] are the weights of the step before.

        `keys` [B, S, D] are `self.key(memory)`, computed once. Rows of one sentence follow each other, R / B of them.
        """
        weights = self.weights(self.query(q), keys, keep, before)
        report(self.attention_id, lambda: weights)
        context = weights[:, 0] @ memory
        return context.flatten(0, 1), weights.flatten(0, 2)

    def weights(self, q: Tensor, keys: Tensor, keep: SrcKeep, before: Tensor) -> Tensor:
        """[B, 1, R / B, S] of projected queries [R, D]."""
        queries = q.view(len(keys), 1, -1, q.shape[-1])
        return masked_softmax(self.score(queries, keys[:, None]), keep[:, None, None])


@recurrent_attentions.register
class LocationAwareRecurrentConfig(RecurrentAttentionConfig):
    """By content and by where the step before attended (Chorowski et al. 2015)."""

    kind: Literal["location_aware"] = "location_aware"
    filters: int = Field(default=8, ge=1, le=1 << 16)
    """Filters of the convolution over the weights of the step before."""
    width: int = Field(default=11, ge=1, le=1 << 16)
    """Width of a filter in source tokens, an odd number."""
    window: int | None = Field(default=None, ge=1)
    """Source tokens to each side of the last step's median that a step may attend to. Default: all."""

    @field_validator("width")
    @classmethod
    def _has_a_middle(cls, width: int) -> int:
        return odd(width)

    def build(self, d_model: int) -> "LocationAwareRecurrent":
        return LocationAwareRecurrent(d_model, self.filters, self.width, self.window)


class LocationAwareRecurrent(AdditiveAttention):
    """a_tj = softmax_j v·tanh(W q + U k_j + V f_tj) with f_t = F * a_t-1; see `LocationAwareAttention`."""

    def __init__(self, d_model: int, filters: int = 8, width: int = 11, window: int | None = None) -> None:
        super().__init__(d_model)
        self.window = window
        self.filters = nn.Parameter(torch.empty(1, filters, width))
        self.location = nn.Parameter(torch.empty(1, filters, d_model))
        nn.init.normal_(self.filters, std=width**-0.5)
        nn.init.normal_(self.location, std=filters**-0.5)

    def weights(self, q: Tensor, keys: Tensor, keep: SrcKeep, before: Tensor) -> Tensor:
        sentences, hypotheses, last = len(keys), len(q) // len(keys), before[:, None]
        keys, keep = (part.repeat_interleave(hypotheses, 0)[:, None] for part in (keys, keep))
        features = location_features(last, self.filters.to(last.dtype))
        scores = location_aware_scores(q[:, None], keys, features, self.location, self.score.v)
        allowed = keep if self.window is None else keep & near_median(last, self.window)
        weights = masked_softmax(scores[:, :, None], allowed[:, :, None])
        return weights.view(sentences, hypotheses, 1, -1).transpose(1, 2)
