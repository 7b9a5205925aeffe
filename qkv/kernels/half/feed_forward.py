"""The feed-forward network in 16 bits on a CPU: its widest tensors are never held in 32.

The twin of two linear layers under `HalfLinears` with relu between them. There the hidden layer, the widest tensor of
all, is widened to 32 bits, kept for the backward pass of relu, and rounded again for the second product; moving it
takes longer than the products.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.kernels.half.linears import padded_rows, unpadded


def half_feed_forward(
    x: Float[Tensor, "*rows D"],
    w_1: Float[Tensor, "F D"],
    b_1: Float[Tensor, " F"],
    w_2: Float[Tensor, "D F"],
    b_2: Float[Tensor, " D"],
    low: torch.dtype,
) -> Float[Tensor, "*rows D"]:
    """max(0, x W_1 + b_1) W_2 + b_2, the products in the type `low`."""
    output: Tensor = _HalfFeedForward.apply(x, w_1, b_1, w_2, b_2, low)
    return output


class _HalfFeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor, low: torch.dtype) -> Tensor:
        rows, low_w_1, low_w_2 = padded_rows(x, low), w_1.to(low), w_2.to(low)
        hidden = torch.addmm(b_1.to(low), rows, low_w_1.T).relu_()
        ctx.save_for_backward(rows, hidden, low_w_1, low_w_2)
        ctx.type = w_1.dtype
        return unpadded(torch.addmm(b_2.to(low), hidden, low_w_2.T), x.shape, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, w_1, w_2 = ctx.saved_tensors
        d_output = padded_rows(upstream, w_1.dtype)
        d_hidden = d_output @ w_2
        torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0, grad_input=d_hidden)
        d_x = unpadded(d_hidden @ w_1, upstream.shape, upstream.dtype) if ctx.needs_input_grad[0] else None
        d_w_1, d_w_2 = d_hidden.T @ rows, d_output.T @ hidden
        d_b_1, d_b_2 = d_hidden.sum(dim=0), upstream.flatten(0, -2).sum(dim=0).to(w_2.dtype)
        return d_x, *(gradient.to(ctx.type) for gradient in (d_w_1, d_b_1, d_w_2, d_b_2)), None
