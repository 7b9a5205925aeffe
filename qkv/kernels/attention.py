"""The fast twin of `qkv.functional.attention.scaled_dot_product`: only the output, without the weights.

Without dropout PyTorch's own kernel is the best one; with dropout on the weights it falls back to plain
steps with slow random numbers, and the batched products here are faster on a CPU. In both
cases a softmax over fewer numbers than a vector register holds is not vectorised and ten times slower, so
rows that are a little too short are padded with masked keys.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.core.devices import autocast_dtype, by_hand
from qkv.core.shapes import AttentionWeights, Bias, ContextHeads, Heads, KeyHeads, Mask, ValueHeads
from qkv.kernels.dropout import dropout_mask

VECTOR = 16
"""Floats in the widest vector register."""


def attention(
    q: Heads,
    k: KeyHeads,
    v: ValueHeads,
    mask: Mask | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
) -> ContextHeads:
    """softmax(Q Kᵀ / √d_k + bias) V over the allowed keys; `dropout` acts on the weights, after the softmax."""
    if dropout > 0 and by_hand(q):
        if low := autocast_dtype(q.device):
            q, k, v = q.to(low), k.to(low), v.to(low)
        output: Tensor = _DropoutAttention.apply(q, k, v, mask, bias, dropout)
        return output
    allowed = mask
    if by_hand(q) and q.shape[2] > 1 and VECTOR // 2 < k.shape[2] < VECTOR:
        k, v, allowed, bias = _fill_up(k, v, mask, bias)
    if bias is not None:
        bias = bias.to(q.dtype) if allowed is None else bias.to(q.dtype).masked_fill(~allowed, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, allowed if bias is None else bias, dropout)


def _fill_up(
    k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Pad keys and values with zeros to a vector's width, and mask the padding."""
    missing = VECTOR - k.shape[2]
    if mask is None:
        mask = torch.ones(1, 1, 1, k.shape[2], dtype=torch.bool, device=k.device)
    k, v = (F.pad(x, (0, 0, 0, missing)) for x in (k, v))
    return k, v, F.pad(mask, (0, missing)), None if bias is None else F.pad(bias, (0, missing))


class _DropoutAttention(torch.autograd.Function):
    """The equation on contiguous [B·H, length, width] tensors, so that each product is one batched call."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, rate: float
    ) -> Tensor:
        batch, heads, queries, width = q.shape
        ctx.num_keys, ctx.scale = k.shape[2], 1 / math.sqrt(width)
        ctx.bias_shape = None if bias is None else bias.shape
        q, k, v = _stack(q, queries), _stack(k, VECTOR), _stack(v, VECTOR)
        scores = _wide(torch.bmm(q * ctx.scale, k.transpose(1, 2))).view(batch, heads, queries, -1)
        additive = _additive(mask, bias, scores, ctx.num_keys)
        weights = torch.softmax(scores if additive is None else scores.add_(additive), dim=-1)
        if mask is not None and not (sees_a_key := mask.any(dim=-1, keepdim=True)).all():
            weights.mul_(sees_a_key)
        dropped = dropout_mask(weights, rate)
        output = torch.bmm(_apply(weights, dropped, v.dtype), v)
        ctx.save_for_backward(q, k, v, weights, dropped)
        return output.view(batch, heads, queries, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, dropped = ctx.saved_tensors
        upstream = _stack(upstream, 1)
        d_v = torch.bmm(_apply(weights, dropped, v.dtype).transpose(1, 2), upstream)
        d_weights = _wide(torch.bmm(upstream, v.transpose(1, 2))).view_as(weights)
        d_weights.mul_(dropped)
        d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        d_bias = None
        if ctx.needs_input_grad[4]:
            d_bias = d_scores[..., : ctx.num_keys].sum_to_size(ctx.bias_shape)
        narrow = (d_scores * ctx.scale).to(q.dtype).flatten(0, 1)
        d_q, d_k = torch.bmm(narrow, k), torch.bmm(narrow.transpose(1, 2), q)
        batch, heads, queries, keys = weights.shape
        d_k, d_v = (x.view(batch, heads, keys, -1)[:, :, : ctx.num_keys] for x in (d_k, d_v))
        return d_q.view(batch, heads, queries, -1), d_k, d_v, None, d_bias, None


def _stack(x: Tensor, least: int) -> Tensor:
    """[B, H, n, E] as contiguous [B·H, n, E], with rows of zeros if n is below `least`."""
    missing = least - x.shape[2]
    return (F.pad(x, (0, 0, 0, missing)) if missing > 0 else x).flatten(0, 1).contiguous()


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _apply(weights: Tensor, dropped: Tensor, dtype: torch.dtype) -> Tensor:
    return (weights * dropped).to(dtype).flatten(0, 1)


def _additive(mask: Tensor | None, bias: Tensor | None, scores: Tensor, num_keys: int) -> Tensor | None:
    """The additive mask: the bias, and a very low number where a key is not allowed."""
    missing = scores.shape[-1] - num_keys
    if mask is None and bias is None and missing == 0:
        return None
    never = torch.finfo(scores.dtype).min / 2
    added = scores.new_zeros(1, 1, 1, num_keys) if bias is None else bias.to(scores.dtype)
    if mask is not None:
        added = torch.where(mask, added, never)
    return F.pad(added, (0, missing), value=never)


BLOCK = 1 << 20
"""Approximate number of tanh values held at once."""


def additive_scores(q: Heads, k: KeyHeads, v: Float[Tensor, "H E"]) -> AttentionWeights:
    """v · tanh(q_i + k_j), a few queries at a time; the backward pass recomputes tanh."""
    scores: Tensor = _AdditiveScores.apply(q, k, v)
    return scores


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q.new_empty(*q.shape[:3], k.shape[2])
        for rows in _blocks(q, k):
            scores[:, :, rows] = (_hidden(q, k, rows) @ v[:, None, :, None]).squeeze(-1)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for rows in _blocks(q, k):
            hidden, d_scores = _hidden(q, k, rows), upstream[:, :, rows, :, None]
            d_v += (hidden * d_scores).sum(dim=(0, 2, 3))
            d_inner = hidden.square_().neg_().add_(1).mul_(v[:, None, None]).mul_(d_scores)
            d_q[:, :, rows] = d_inner.sum(dim=3)
            d_k += d_inner.sum(dim=2)
        return d_q, d_k, d_v


def _blocks(q: Tensor, k: Tensor) -> Iterator[slice]:
    """Slices of queries with about BLOCK tanh values each."""
    queries = q.shape[2]
    size = max(1, BLOCK * queries // max(1, q.numel() * k.shape[2]))
    return (slice(first, min(first + size, queries)) for first in range(0, queries, size))


def _hidden(q: Tensor, k: Tensor, rows: slice) -> Tensor:
    """tanh(q_i + k_j) of some queries, [B, H, rows, K, E]."""
    return (q[:, :, rows, None] + k[:, :, None]).tanh_()
