"""Attention by relative position alone (Cordonnier et al. 2020): each head looks at one place beside its query."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor


def quadratic_logits(
    q_points: Int[Tensor, "Q dims"],
    k_points: Int[Tensor, "K dims"],
    centres: Float[Tensor, "H dims"],
    sharpness: Float[Tensor, " H"],
) -> Float[Tensor, "H Q K"]:
    """v_h · r_δ with δ = key - query, r_δ = (‖δ‖², δ) and v_h = -α (1, -2 Δ_h).

    That is -α ‖δ - Δ_h‖² but for a constant, which the softmax does not see: the closer δ is to Δ_h, the more weight.
    """
    offsets = (k_points[None, :, :] - q_points[:, None, :]).to(centres.dtype)
    squares = offsets.square().sum(dim=-1)
    products = torch.einsum("qkd,hd->hqk", offsets, centres)
    return -sharpness[:, None, None] * (squares - 2 * products)


def one_hot_sharpness(dtype: torch.dtype) -> int:
    """The least whole α for which exp(-α) is 0 in this type: then a softmax over whole distances is exactly one-hot."""
    info = torch.finfo(dtype)
    return math.ceil(-(math.log(info.tiny) + math.log(info.eps) - math.log(2)))
