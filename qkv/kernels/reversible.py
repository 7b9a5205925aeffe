"""Residual layers that can be run backwards (Gomez et al. 2017), so that no activation of theirs has to be kept.

One step takes two streams to (b, a + f(b)); its inverse takes (a, b) to (b - f(a), a). Two of them are the block
y_1 = x_1 + F(x_2), y_2 = x_2 + G(y_1) of the papers; a decoder takes three steps a layer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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
        ctx.steps, ctx.moments = steps, []
        ctx.places = {id(source): place for place, source in enumerate(sources)}
        for step in steps:
            ctx.moments.append(_Moment.now(b.device))
            with ctx.moments[-1].precision():
                a, b = b, a + step.branch(b)
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_a: Tensor, d_b: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        found: list[Tensor | None] = [None] * len(ctx.places)
        for step, moment in zip(reversed(ctx.steps), reversed(ctx.moments), strict=True):
            wanted = [source for source in step.sources if source.requires_grad]
            x = a.detach().requires_grad_()
            with moment.again(), torch.enable_grad():
                y = step.branch(x)
            d_x, *d_sources = torch.autograd.grad(y, [x, *wanted], d_b.to(y.dtype), allow_unused=True)
            for source, gradient in zip(wanted, d_sources, strict=True):
                if gradient is not None:
                    place = ctx.places[id(source)]
                    before = found[place]
                    found[place] = gradient if before is None else before + gradient
            a, b = b - y.detach(), a
            d_a, d_b = d_b, d_a + d_x
        return d_a, d_b, None, *found


@dataclass(frozen=True)
class _Moment:
    """What a step depends on besides tensors: the random generators, and in which precision autocast computes."""

    device: torch.device
    random: Tensor
    device_random: Tensor | None
    low: torch.dtype | None

    @classmethod
    def now(cls, device: torch.device) -> "_Moment":
        kind = device.type
        low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        device_random = torch.cuda.get_rng_state(device) if kind == "cuda" else None
        return cls(device, torch.get_rng_state(), device_random, low)

    @contextmanager
    def precision(self) -> Iterator[None]:
        # Without the cache: weights that were rounded without a gradient would be used again where one is wanted.
        with torch.autocast(self.device.type, self.low, enabled=self.low is not None, cache_enabled=False):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """As it was then; afterwards the generators are where they are now."""
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng([] if self.device_random is None else [self.device]))
            torch.set_rng_state(self.random)
            if self.device_random is not None:
                torch.cuda.set_rng_state(self.device_random, self.device)
            stack.enter_context(self.precision())
            yield
