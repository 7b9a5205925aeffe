"""Attention as the paper writes it (Vaswani et al. 2017, section 3.2): scores, softmax, weighted sum."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.shapes import AttentionWeights, Bias, ContextHeads, Heads, KeyHeads, Mask, ValueHeads


def dot_scores(q: Heads, k: KeyHeads) -> AttentionWeights:
    """Q Kᵀ, unscaled (Luong et al. 2015)."""
    return q @ k.transpose(-2, -1)


def scaled_dot_scores(q: Heads, k: KeyHeads) -> AttentionWeights:
    """Q Kᵀ / √d_k. With q and k of unit variance the scores have unit variance, for every head width d_k."""
    return dot_scores(q, k) / math.sqrt(q.shape[-1])


def masked_softmax(scores: AttentionWeights, mask: Mask | None = None) -> AttentionWeights:
    """exp(s_j) / Σ_j' exp(s_j') over the keys that the mask allows; a row without an allowed key gets zeros.

    Computed in float32 or wider. The lowest finite number stands for -inf: a row without a key then
    becomes uniform rather than NaN, and the product with the mask makes it 0, in the gradient too.
    """
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        return torch.softmax(wide, dim=-1)
    lowest = torch.finfo(wide.dtype).min
    return torch.softmax(wide.masked_fill(~mask, lowest), dim=-1) * mask


def attention_weights(q: Heads, k: KeyHeads, mask: Mask | None = None, bias: Bias | None = None) -> AttentionWeights:
    """A = softmax(Q Kᵀ / √d_k + bias) over the allowed keys."""
    scores = scaled_dot_scores(q, k)
    return masked_softmax(scores if bias is None else scores + bias, mask)


def scaled_dot_product(
    q: Heads, k: KeyHeads, v: ValueHeads, mask: Mask | None = None, bias: Bias | None = None
) -> tuple[ContextHeads, AttentionWeights]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V  (equation 1), and the weights for people to look at."""
    weights = attention_weights(q, k, mask, bias)
    return weights.to(v.dtype) @ v, weights


def split_heads(x: Float[Tensor, "B n D"], num_heads: int) -> Float[Tensor, "B {num_heads} n E"]:
    """Cut the model width into `num_heads` slices of d_k = d_model / h, one for each head."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H n E"]) -> Float[Tensor, "B n D"]:
    """Concat(head_1, ..., head_h): the inverse of `split_heads`."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)
