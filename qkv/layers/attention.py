"""Multi-head attention: this module projects and splits heads, a kernel computes softmax(QK)V."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.attention import merge_heads, split_heads
from qkv.kernels.attention import attention
from qkv.layers.positions.base import Positions
from qkv.layers.view import View


class KeyValue(NamedTuple):
    """Projected keys and values of one attention, [B, H, K, E] each; keys are already rotated."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_H) W_o with head_h = softmax(Q W_q^h (K W_k^h)^T / sqrt(E)) V W_v^h.

    `positions` may turn queries and keys and add a bias to the logits; cross-attention has none.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, positions: Positions | None = None) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads ({num_heads}) must divide d_model ({d_model})")
        self.num_heads = num_heads
        self.dropout = dropout
        self.positions = positions or Positions()
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Self-attention: queries, keys and values come from `x`, by one product with [W_q; W_k; W_v]."""
        weight = torch.cat([self.query.weight, self.key.weight, self.value.weight])
        bias = torch.cat([self.query.bias, self.key.bias, self.value.bias])
        queries, keys, values = F.linear(x, weight, bias).chunk(3, dim=-1)
        return self._attend(queries, self._key_value(keys, values, view.k_pos), view)

    def project(self, memory: Tensor, k_pos: Tensor) -> KeyValue:
        """Keys and values of `memory`, to be computed once and attended to many times."""
        weight = torch.cat([self.key.weight, self.value.weight])
        bias = torch.cat([self.key.bias, self.value.bias])
        keys, values = F.linear(memory, weight, bias).chunk(2, dim=-1)
        return self._key_value(keys, values, k_pos)

    def attend(self, x: Tensor, key_value: KeyValue, view: View) -> Tensor:
        """Attention of `x` to projected keys and values."""
        return self._attend(self.query(x), key_value, view)

    def _key_value(self, keys: Tensor, values: Tensor, k_pos: Tensor) -> KeyValue:
        rotated = self.positions.rotate(split_heads(keys, self.num_heads), k_pos)
        return KeyValue(rotated, split_heads(values, self.num_heads))

    def _attend(self, queries: Tensor, key_value: KeyValue, view: View) -> Tensor:
        rotated = self.positions.rotate(split_heads(queries, self.num_heads), view.q_pos)
        bias = self.positions.bias(view.q_pos, view.k_pos)
        dropout = self.dropout if self.training else 0.0
        context = attention(rotated, key_value.keys, key_value.values, view.mask, bias, dropout)
        return self.output(merge_heads(context))
