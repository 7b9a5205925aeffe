"""Attention with some heads removed, or with heads that do nothing added."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qkv.layers.attention.base import Attention


def keep_heads(attention: Attention, kept: Sequence[int]) -> None:
    """Remove all other heads, in place: their slices of W_q, W_k, W_v and W_o. Heads count from 0.

    The output is that of the whole attention with the output of the other heads set to 0.
    """
    _require_own_keys(attention)
    channels = _channels(attention, kept)
    for linear in (attention.query, attention.key, attention.value):
        _replace(linear, linear.weight[channels], linear.bias[channels])
    _replace(attention.output, attention.output.weight[:, channels], attention.output.bias)
    attention.positions = attention.positions.for_heads(kept)
    attention.num_heads = attention.kv_heads = len(kept)


def add_empty_heads(attention: Attention, num_heads: int) -> None:
    """Add heads whose weights are all 0 behind the others, in place, up to `num_heads`; the output is the same.

    For formats that have one number of heads for a whole model. Positions must not tell heads apart.
    """
    _require_own_keys(attention)
    missing = (num_heads - attention.num_heads) * attention.head_width
    for linear in (attention.query, attention.key, attention.value):
        rows = linear.weight.new_zeros(missing, linear.in_features)
        _replace(linear, torch.cat([linear.weight, rows]), torch.cat([linear.bias, linear.bias.new_zeros(missing)]))
    output = attention.output
    columns = output.weight.new_zeros(output.out_features, missing)
    _replace(output, torch.cat([output.weight, columns], dim=1), output.bias)
    attention.num_heads = attention.kv_heads = num_heads


def head_columns(attention: Attention, head: int) -> Tensor:
    """The columns of W_o that read a head, as a view without gradients; heads count from 0."""
    width = attention.head_width
    return attention.output.weight.detach()[:, head * width : (head + 1) * width]


def _require_own_keys(attention: Attention) -> None:
    if attention.kv_heads != attention.num_heads:
        raise ValueError("heads that share keys and values cannot be removed or added one by one")


def _channels(attention: Attention, heads: Sequence[int]) -> Tensor:
    every = torch.arange(attention.num_heads * attention.head_width).view(attention.num_heads, -1)
    return every[list(heads)].flatten()


def _replace(linear: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    """Give a linear layer new weights and the sizes that follow from them."""
    linear.weight, linear.bias = nn.Parameter(weight.detach().clone()), nn.Parameter(bias.detach().clone())
    linear.out_features, linear.in_features = weight.shape
