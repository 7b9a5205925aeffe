"""The end of a post-norm sublayer in one step: LayerNorm(x + Dropout(y))."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.core.devices import by_hand
from qkv.core.shapes import Hidden
from qkv.kernels.dropout import dropout, dropout_mask


def residual_norm(
    x: Hidden,
    y: Hidden,
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"],
    rate: float = 0.0,
    eps: float = 1e-5,
) -> Hidden:
    """LayerNorm(x + Dropout(y)): the twin of `qkv.functional.norm.post_norm(x, dropout(y, rate), ...)`.

    Draws the same random numbers as `dropout`, so with the same seed the two give the same result.
    """
    if not by_hand(x) or x.dtype != y.dtype or x.dtype != weight.dtype:
        return F.layer_norm(x + dropout(y, rate), weight.shape, weight, bias, eps)
    normal: Tensor = _ResidualNorm.apply(x, y, weight, bias, rate, eps)
    return normal


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, rate: float, eps: float) -> Tensor:
        mask = dropout_mask(y, rate) if rate else None
        total = x + y if mask is None else torch.addcmul(x, y, mask)
        normal, mean, deviation = torch.native_layer_norm(total, weight.shape, weight, bias, eps)
        ctx.save_for_backward(total, mean, deviation, weight, bias, mask)
        return normal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, deviation, weight, bias, mask = ctx.saved_tensors
        d_total, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(
            upstream.contiguous(), total, weight.shape, mean, deviation, weight, bias, [True, True, True]
        )
        d_y = d_total if mask is None else d_total * mask
        return d_total, d_y, d_weight, d_bias, None, None
