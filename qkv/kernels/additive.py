"""The twin of `qkv.functional.scores.additive_scores` that never holds [Q, K, E] numbers a head at once."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.shapes import AttentionWeights, Heads, KeyHeads

BLOCK = 1 << 20
"""Numbers of tanh that are held at once, about."""


def additive_scores(q: Heads, k: KeyHeads, v: Float[Tensor, "H E"]) -> AttentionWeights:
    """v · tanh(q_i + k_j), a few queries at a time; the backward pass computes tanh again."""
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
    """So many queries that their tanh with all keys are about BLOCK numbers."""
    queries = q.shape[2]
    size = max(1, BLOCK * queries // max(1, q.numel() * k.shape[2]))
    return (slice(first, min(first + size, queries)) for first in range(0, queries, size))


def _hidden(q: Tensor, k: Tensor, rows: slice) -> Tensor:
    """tanh(q_i + k_j) of some queries, [B, H, rows, K, E]."""
    return (q[:, :, rows, None] + k[:, :, None]).tanh_()
