"""Residual layers that can be run backwards (Gomez et al. 2017), so that no activation of theirs has to be kept.

One step takes two streams to (b, a + f(b)); its inverse takes (a, b) to (b - f(a), a). Two of them are the block
y_1 = x_1 + F(x_2), y_2 = x_2 + G(y_1) of the papers; a decoder takes three steps a layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.kernels.moment import Gradients, Moment
from qkv.shapes import Hidden

Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """(a, b) -> (b, a + branch(b))"""

    branch: Branch
    sources: Sequence[Tensor]
    """All that the branch depends on besides its argument and that may want a gradient."""


def reversible(a: Hidden, b: Hidden, steps: Sequence[Step]) -> tuple[Hidden, Hidden]:
    """The two streams after all steps. The backward pass computes the inputs again from the outputs, step by step.

    Random numbers (dropout, hashes) are drawn as in the forward pass: each step remembers the generator's state.
    """
    sources = list({id(source): source for step in steps for source in step.sources}.values())
    a, b = _Reversible.apply(a, b, steps, *sources)
    return a, b


def undo(a: Hidden, b: Hidden, branches: Sequence[Branch]) -> tuple[Hidden, Hidden]:
    """What went into these steps, from what came out."""
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
