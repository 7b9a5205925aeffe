"""Normalisation over the model width."""

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.core.shapes import Hidden


def layer_norm(
    x: Hidden, gain: Float[Tensor, " D"] | None, bias: Float[Tensor, " D"] | None, eps: float = 1e-5
) -> Hidden:
    """g ⊙ (x - mean) / √(var + ε) + b over the last axis, with the biased variance (Ba et al. 2016)."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    normal = centred / torch.sqrt(variance + eps)
    scaled = normal if gain is None else gain * normal
    return scaled if bias is None else scaled + bias


def rms_norm(x: Hidden, gain: Float[Tensor, " D"], eps: float = 1e-5) -> Hidden:
    """g ⊙ x / √(mean(x²) + ε) over the last axis (Zhang and Sennrich 2019): no centring, no bias."""
    return gain * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def post_norm(
    x: Hidden, y: Hidden, gain: Float[Tensor, " D"] | None, bias: Float[Tensor, " D"] | None, eps: float = 1e-5
) -> Hidden:
    """LayerNorm(x + y), y = Sublayer(x) after its dropout (section 3.1 of the paper)."""
    return layer_norm(x + y, gain, bias, eps)
