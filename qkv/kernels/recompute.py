"""Recomputation in the backward pass: position-wise functions in slices, and reversible steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.core.shapes import Hidden
from qkv.kernels.moment import Gradients, Moment


def in_slices(f: Callable[[Tensor], Tensor], x: Hidden, size: int, sources: Sequence[Tensor] = ()) -> Hidden:
    """f(x), computed on slices of at most `size` positions; `sources` are the other tensors that f depends on.

    Only x is saved for the backward pass: each slice is recomputed with the same random numbers.
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


Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """(a, b) -> (b, a + branch(b))"""

    branch: Branch
    sources: Sequence[Tensor]
    """The tensors besides its argument that the branch depends on and that may need a gradient."""


def reversible(a: Hidden, b: Hidden, steps: Sequence[Step]) -> tuple[Hidden, Hidden]:
    """The two streams after all steps. The backward pass recomputes the inputs from the outputs, step by step.

    Random numbers (dropout, hashes) are drawn as in the forward pass: each step saves the generator's state.
    """
    sources = list({id(source): source for step in steps for source in step.sources}.values())
    a, b = _Reversible.apply(a, b, steps, *sources)
    return a, b


def undo(a: Hidden, b: Hidden, branches: Sequence[Branch]) -> tuple[Hidden, Hidden]:
    """The inputs of these steps, from their outputs."""
    for branch in reversed(branches):
        a, b = b - branch(a), a
    return a, b


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, steps: Sequence[Step], *sources: Tensor) -> tuple[Tensor, Tensor]:
        ctx.steps, ctx.sources, ctx.moments = steps, sources, []
        for step in steps:
            ctx.moments.append(Moment.now(b.device))
            with ctx.moments[-1].precision():
                a, b = b, a + step.branch(b)
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_a: Tensor, d_b: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        gradients = Gradients(ctx.sources)
        for step, moment in zip(reversed(ctx.steps), reversed(ctx.moments), strict=True):
            added, d_x = gradients.through(step.branch, a, d_b, moment, step.sources)
            a, b = b - added, a
            d_a, d_b = d_b, d_a + d_x
        return d_a, d_b, None, *gradients.found
