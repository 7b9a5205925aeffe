"""Losses on attention weights that say where a target token should look: near the diagonal, or at given links."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def guided_penalty(
    tgt_lengths: Int[Tensor, " B"], src_lengths: Int[Tensor, " B"], tgt_size: int, src_size: int, width: float
) -> Float[Tensor, "B T S"]:
    """W_ts = 1 - exp(-(t / T - s / S)² / (2 g²)), with the lengths T and S of each sentence (Tachibana et al. 2018).

    0 on the diagonal, near 1 far from it; `width` is g. Zero on padding.
    """
    t, s = (torch.arange(size, device=tgt_lengths.device) for size in (tgt_size, src_size))
    inside = (t < tgt_lengths[:, None])[:, :, None] & (s < src_lengths[:, None])[:, None, :]
    return -torch.expm1(_log_nearness(tgt_lengths, src_lengths, tgt_size, src_size, width)) * inside


def _log_nearness(
    tgt_lengths: Int[Tensor, " B"], src_lengths: Int[Tensor, " B"], tgt_size: int, src_size: int, width: float
) -> Float[Tensor, "B T S"]:
    """-(t / T - s / S)² / (2 g²)"""
    t, s = (torch.arange(size, device=tgt_lengths.device) for size in (tgt_size, src_size))
    apart = (t / tgt_lengths[:, None])[:, :, None] - (s / src_lengths[:, None])[:, None, :]
    return -apart.square() / (2 * width**2)


def guided_attention(
    weights: Float[Tensor, "B H T S"], tgt_keep: Bool[Tensor, "B T"], src_keep: Bool[Tensor, "B S"], width: float
) -> Float[Tensor, " B"]:
    """mean over the heads and the T · S real cells of A_ts W_ts, for each sentence."""
    tgt_lengths, src_lengths = tgt_keep.sum(dim=1), src_keep.sum(dim=1)
    _, heads, tgt_size, src_size = weights.shape
    penalty = guided_penalty(tgt_lengths, src_lengths, tgt_size, src_size, width).to(weights)
    return (weights * penalty[:, None]).sum(dim=(1, 2, 3)) / (tgt_lengths * src_lengths * heads)


def diagonal_likelihood(
    weights: Float[Tensor, "B H T S"], tgt_keep: Bool[Tensor, "B T"], src_keep: Bool[Tensor, "B S"], width: float
) -> Float[Tensor, " B"]:
    """-1/T Σ_t log Σ_s A_ts exp(-(t / T - s / S)² / (2 g²)), the mean over the heads, for each sentence.

    The inner sum is the weight near the diagonal. Unlike `guided_attention`, it is steep while there is little of it.
    """
    tgt_lengths, src_lengths = tgt_keep.sum(dim=1), src_keep.sum(dim=1)
    _, heads, tgt_size, src_size = weights.shape
    near = _log_nearness(tgt_lengths, src_lengths, tgt_size, src_size, width).exp() * src_keep[:, None, :]
    mass = (weights * near.to(weights)[:, None]).sum(dim=-1)
    logs = mass.clamp_min(torch.finfo(weights.dtype).tiny).log() * tgt_keep[:, None, :]
    return -logs.sum(dim=(1, 2)) / (tgt_lengths * heads)


def alignment_cross_entropy(
    weights: Float[Tensor, "B H T S"], alignment: Float[Tensor, "B T S"], tgt_keep: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """-1/T Σ_t Σ_s G_ts log A_ts, the mean over the heads, for each sentence (Garg et al. 2019).

    The row of a target token with links sums to one; the row of one without is zero, and counts nothing.
    """
    log_weights = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    summed = (log_weights * alignment.to(weights)[:, None]).sum(dim=(1, 2, 3))
    return -summed / (tgt_keep.sum(dim=1) * weights.shape[1])
