"""A function of each position on its own, a few positions at a time, so that what is wide in between stays small."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.kernels.moment import Gradients, Moment
from qkv.shapes import Hidden


def in_slices(f: Callable[[Tensor], Tensor], x: Hidden, size: int, sources: Sequence[Tensor] = ()) -> Hidden:
    """f(x), computed on slices of at most `size` positions; `sources` are what f depends on besides x.

    For the backward pass only x is kept: each slice is computed again, with the same random numbers.
    """
    if x.shape[-2] <= size:
        return f(x)
    result: Tensor = _InSlices.apply(x, f, size, *sources)
    return result


class _InSlices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, f: Callable[[Tensor], Tensor], size: int, *sources: Tensor) -> Tensor:
        ctx.f, ctx.size, ctx.sources, ctx.moments = f, size, sources, []
        ctx.save_for_backward(x)
        results = []
        for part in x.split(size, dim=-2):
            ctx.moments.append(Moment.now(x.device))
            with ctx.moments[-1].precision():
                results.append(f(part))
        return torch.cat(results, dim=-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        gradients, d_x = Gradients(ctx.sources), torch.empty_like(x)
        parts = (tensor.split(ctx.size, dim=-2) for tensor in (x, upstream, d_x))
        for part, g, d_part, moment in zip(*parts, ctx.moments, strict=True):
            d_part.copy_(gradients.through(ctx.f, part, g, moment, ctx.sources)[1])
        return d_x, None, None, *gradients.found
