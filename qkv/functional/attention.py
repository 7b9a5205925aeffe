"""Attention as the paper writes it (Vaswani et al. 2017, section 3.2): scores, softmax, weighted sum."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from qkv.core.shapes import AttentionWeights, Bias, ContextHeads, Heads, KeyHeads, Mask, ValueHeads


def dot_scores(q: Heads, k: KeyHeads) -> AttentionWeights:
    """Q Kᵀ, unscaled (Luong et al. 2015)."""
    return q @ k.transpose(-2, -1)


def scaled_dot_scores(q: Heads, k: KeyHeads) -> AttentionWeights:
    """Q Kᵀ / √d_k. With q and k of unit variance the scores have unit variance, for every head width d_k."""
    return dot_scores(q, k) / math.sqrt(q.shape[-1])


def general_scores(q: Heads, k: KeyHeads, w: Float[Tensor, "H E E"]) -> AttentionWeights:
    """Q W Kᵀ, one W per head (Luong et al. 2015)."""
    return dot_scores(q @ w, k)


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
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V  (equation 1), and the attention weights."""
    weights = attention_weights(q, k, mask, bias)
    return weights.to(v.dtype) @ v, weights


def split_heads(x: Float[Tensor, "B n D"], num_heads: int) -> Float[Tensor, "B {num_heads} n E"]:
    """Split the model width into `num_heads` slices of d_k = d_model / h, one per head."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H n E"]) -> Float[Tensor, "B n D"]:
    """Concat(head_1, ..., head_h): the inverse of `split_heads`."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


def additive_scores(q: Heads, k: KeyHeads, v: Float[Tensor, "H E"]) -> AttentionWeights:
    """v · tanh(q_i + k_j), one v per head (Bahdanau et al. 2015).

    Their W q and U k are the projections to heads. Materialises [Q, K, E] per head;
    see `kernels/attention.py`.
    """
    hidden = (q[:, :, :, None] + k[:, :, None]).tanh()
    return (hidden * v[:, None, None]).sum(dim=-1)


def location_features(weights: Float[Tensor, "B H K"], filters: Float[Tensor, "H C w"]) -> Float[Tensor, "B H K C"]:
    """f_j = Σ_d F_d a_j+d, |d| ≤ (w - 1) / 2: where the attention was, seen from each key (Chorowski et al. 2015)."""
    heads, channels, width = filters.shape
    seen: Tensor = F.conv1d(weights, filters.view(heads * channels, 1, width), padding=width // 2, groups=heads)
    return seen.view(len(weights), heads, channels, -1).transpose(2, 3)


def near_median(weights: Float[Tensor, "B H K"], window: int) -> Bool[Tensor, "B H K"]:
    """|j - m| ≤ window, m the median key of these weights."""
    median = (weights.detach().cumsum(dim=-1) < 0.5).sum(dim=-1, keepdim=True)
    return (torch.arange(weights.shape[-1], device=weights.device) - median).abs() <= window


def near_largest(weights: Float[Tensor, "B H K"], window: int) -> Bool[Tensor, "B H K"]:
    """|j - m| ≤ window, m the key with the largest of these weights; every key where all of them are 0."""
    largest, key = weights.detach().max(dim=-1, keepdim=True)
    return ((torch.arange(weights.shape[-1], device=weights.device) - key).abs() <= window) | (largest == 0)


def location_aware_scores(
    q: Float[Tensor, "B H E"],
    k: KeyHeads,
    features: Float[Tensor, "B H K C"],
    u: Float[Tensor, "H C E"],
    v: Float[Tensor, "H E"],
) -> Float[Tensor, "B H K"]:
    """v · tanh(q + k_j + U f_j) of one query: `additive_scores` with a term that knows where the last one attended."""
    hidden = (q[:, :, None] + k + features.to(u.dtype) @ u).tanh()
    return (hidden * v[:, None]).sum(dim=-1)


def coverage_scores(
    q: Float[Tensor, "B H E"],
    k: KeyHeads,
    coverage: Float[Tensor, "B H K"],
    w: Float[Tensor, "H E"],
    v: Float[Tensor, "H E"],
) -> Float[Tensor, "B H K"]:
    """v · tanh(q + k_j + w c_j) of one query, c_j the weight that key j has got so far (See et al. 2017)."""
    hidden = (q[:, :, None] + k + coverage[..., None] * w[:, None]).tanh()
    return (hidden * v[:, None]).sum(dim=-1)


def cosine_scores(q: Heads, k: KeyHeads, scale: Float[Tensor, " H"]) -> AttentionWeights:
    """scale · cos(q_i, k_j): the norms of queries and keys are ignored; each head has its own scale."""
    return dot_scores(F.normalize(q, dim=-1), F.normalize(k, dim=-1)) * scale[:, None, None]


FAR = -3.0


def sparsemax(scores: AttentionWeights, mask: Mask | None = None) -> AttentionWeights:
    """max(0, z_j - τ): the point of the simplex nearest to z (Martins and Astudillo 2016)."""
    z = _below_the_best(scores, mask)
    ranked, count = _ranked(z)
    support = z >= _last(ranked, 1 + count * ranked > ranked.cumsum(-1))
    size = support.sum(-1, keepdim=True)
    threshold = ((z * support).sum(-1, keepdim=True) - 1) / size
    # `clamp` would also pass a gradient to a key exactly at the threshold, which is not in the support.
    above = (z - threshold) * support
    below_zero_by_rounding = above.detach().clamp_max(0)
    return _only_allowed(above - below_zero_by_rounding, mask)


def entmax(scores: AttentionWeights, mask: Mask | None = None) -> AttentionWeights:
    """max(0, z_j / 2 - τ)²: 1.5-entmax, half-way between softmax and sparsemax (Peters et al. 2019)."""
    z = _below_the_best(scores / 2, mask)
    ranked, count = _ranked(z)
    mean = ranked.cumsum(-1) / count
    spread = ranked.square().cumsum(-1) - count * mean.square()
    support = z >= _last(ranked, mean - ((1 - spread) / count).clamp_min(0).sqrt() <= ranked)
    size = support.sum(-1, keepdim=True)
    mean = (z * support).sum(-1, keepdim=True) / size
    spread = ((z - mean) * support).square().sum(-1, keepdim=True)
    threshold = mean - ((1 - spread) / size).sqrt()
    return _only_allowed((z - threshold).clamp_min(0).square(), mask)


def _below_the_best(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores minus the maximum of their row, in float32 or wider. The weights are invariant to the shift."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        return wide - wide.amax(-1, keepdim=True).detach()
    best = wide.detach().masked_fill(~mask, torch.finfo(wide.dtype).min).amax(-1, keepdim=True)
    return (wide - best).masked_fill(~mask, FAR)


def _ranked(z: Tensor) -> tuple[Tensor, Tensor]:
    """The scores in descending order, and 1, 2, 3, ..."""
    ranked = z.detach().sort(dim=-1, descending=True).values
    return ranked, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _last(ranked: Tensor, inside: Tensor) -> Tensor:
    """The lowest score of the support; `inside` is True for a prefix of each row."""
    return ranked.gather(-1, inside.sum(-1, keepdim=True) - 1)


def _only_allowed(weights: Tensor, mask: Tensor | None) -> Tensor:
    """A row without an allowed key gets zeros."""
    return weights if mask is None else weights * mask
