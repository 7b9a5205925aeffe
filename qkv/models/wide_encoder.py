"""A stack of plain encoder layers without gradients, with as few operations as they need: for one short text, calling
an operation takes as long as computing it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.layers.attention.base import ForInference
from qkv.layers.attention.inference import InferenceAttention
from qkv.models.inference_layers import InferenceEncoderLayer


def is_plain(attention: ForInference) -> bool:
    """Whether PyTorch's kernel is all that it needs once queries and keys are turned."""
    return type(attention) is InferenceAttention and attention.group == 1 and not attention.biased


def through_layers(layers: Sequence[InferenceEncoderLayer], x: Tensor, keep: Tensor) -> Tensor:
    """[B, S, D] through layers that are all plain; `keep` [B, S] says what may be seen."""
    hidden = None
    if not keep.all():
        hidden = x.new_zeros(len(x), 1, 1, x.shape[1]).masked_fill_(~keep[:, None, None], -torch.inf)
    rows = x.flatten(0, 1)
    for layer in layers:
        attention = layer.attention
        assert isinstance(attention, InferenceAttention)
        around = _Around(attention, x.shape[0], x.shape[1], hidden)
        rows = layer.attention_residual(rows, around)
        rows = layer.feed_forward_residual(rows, layer.feed_forward)
    return rows.view(x.shape)


class _Around:
    """Self-attention of all positions, given as rows [B S, D]."""

    def __init__(self, attention: InferenceAttention, batch: int, length: int, hidden: Tensor | None) -> None:
        self.attention = attention
        self.shape = (batch, length, 3, attention.num_heads, attention.head_width)
        self.hidden = hidden

    def __call__(self, rows: Tensor) -> Tensor:
        attention = self.attention
        queries, keys, values = attention.query_key_value(rows).view(self.shape).transpose(1, 3).unbind(2)
        if attention.turns:
            pos = torch.arange(self.shape[1], device=rows.device)
            queries, keys = (attention.positions.rotate(part, pos) for part in (queries, keys))
        context = F.scaled_dot_product_attention(queries, keys, values, self.hidden)
        return attention.output(context.transpose(1, 2).reshape(rows.shape))
