"""The vocabulary projection z = W h + b for losses that compute one chunk of logits at a time.

A loss Σ_n w_n (... - Σ_v background_v z_v) has a background that is the same for every row, so its share of
the loss and of the gradients is a product with W that is computed once:
Σ_v background_v z_v = h · (Wᵀ background) + b · background.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.core.devices import autocast_to
from qkv.functional.losses import Smoothing
from qkv.kernels.half.linears import linear_dtype, padded_rows

Walk = Callable[["ChunkedProjection"], tuple[Tensor, Tensor]]
"""Visits all rows and accumulates their gradients in the projection; returns (loss, nll) and the row weights."""


def loss_of_walk(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    smoothing: Smoothing,
    rows: int,
    walk: Walk,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The two sums of a walk; the gradients of the first are computed with it. `rows`: the largest chunk."""
    inputs = (hidden, weight, bias)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    loss, nll = _LossOfWalk.apply(hidden, weight, bias, smoothing, rows, walk, wanted, _product_type(hidden, weight))
    return loss, nll


class _LossOfWalk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: Smoothing,
        rows: int,
        walk: Walk,
        wanted: bool,
        product: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with autocast_to(hidden.device, None):
            projection = ChunkedProjection(hidden, weight, bias, smoothing, rows, product, wanted)
            sums, row_weights = walk(projection)
            ctx.gradients = projection.gradients(row_weights) if wanted else None
        loss, nll = sums.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if gradient is None else gradient * upstream.to(gradient) for gradient in ctx.gradients]
        return (*scaled, None, None, None, None, None)


def _product_type(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype of the matrix products: that of linear layers."""
    return linear_dtype(hidden.device) or torch.promote_types(hidden.dtype, weight.dtype)


class ChunkedProjection:
    """Computes logits of a chunk of rows into one buffer, and accumulates the gradients if they are needed."""

    def __init__(
        self,
        hidden: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        smoothing: Smoothing,
        rows: int,
        product: torch.dtype,
        wanted: bool,
    ) -> None:
        wide = torch.promote_types(product, torch.float32)
        self.inputs = (hidden, weight, bias)
        self.hidden = hidden.to(product)
        self.weight = weight.to(product)
        self.bias = None if bias is None else bias.to(wide)
        self.background = smoothing.background_on(weight.device, wide)
        self.total = smoothing.confidence + float(smoothing.background.to(wide).sum())
        self.pull = self.background @ weight.to(wide)
        self.buffer = weight.new_empty(rows, len(weight), dtype=wide)
        self.wanted = wanted
        if wanted:
            self.d_hidden = torch.empty_like(self.hidden, dtype=wide)
            self.d_weight = torch.zeros_like(self.weight, dtype=wide)
            self.d_bias = torch.zeros_like(self.background)

    def logits(self, hidden: Tensor) -> Tensor:
        """W h + b of these rows; overwritten by the next call."""
        z = self.buffer[: len(hidden)]
        if self.weight.dtype == z.dtype:
            torch.mm(hidden, self.weight.t(), out=z)
        else:
            z.copy_((padded_rows(hidden, hidden.dtype) @ self.weight.t())[: len(z)])
        return z if self.bias is None else z.add_(self.bias)

    def smooth(self, hidden: Tensor) -> Tensor:
        """Σ_v background_v z_v of each row."""
        found = hidden.to(self.pull.dtype) @ self.pull
        return found if self.bias is None else found + self.background @ self.bias

    def add_gradients(self, start: int, hidden: Tensor, g: Tensor, scale: Tensor, row_weights: Tensor) -> None:
        """`g` times `scale` of its row is ∂L/∂z without the background's share, which `row_weights` scale."""
        scaled, low = hidden * scale[:, None], self.weight.dtype
        d_hidden = self.d_hidden[start : start + len(g)]
        if low == self.d_weight.dtype:
            d_hidden.copy_(g.to(low) @ self.weight)
            self.d_weight.addmm_(g.to(low).t(), scaled.to(low))
        else:
            # In 16 bits only shapes that come again: see qkv.kernels.half.linears.
            narrow = padded_rows(g, low)
            d_hidden.copy_((narrow @ self.weight)[: len(g)])
            self.d_weight += narrow.t() @ padded_rows(scaled, low)
        d_hidden.mul_(scale[:, None]).addr_(row_weights, self.pull, alpha=-1)
        if self.bias is not None:
            self.d_bias += scale @ g

    def gradients(self, row_weights: Tensor) -> tuple[Tensor | None, ...]:
        """∂L/∂hidden, ∂L/∂weight and ∂L/∂bias, now with the background's share in the last two."""
        self.d_weight.addr_(self.background, row_weights @ self.hidden.to(row_weights), alpha=-1)
        self.d_bias -= self.background * row_weights.sum()
        found = (self.d_hidden, self.d_weight, self.d_bias)
        return tuple(None if x is None else g.to(x.dtype) for x, g in zip(self.inputs, found, strict=True))
