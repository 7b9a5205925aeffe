"""Exact recomputation, for kernels that save no activations."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.core.devices import autocast_dtype, autocast_to
from qkv.kernels.half.linears import HalfLinears

GENERATORS = ("cuda", "xpu")
"""Kinds of device whose random generators can be saved and set."""


@dataclass(frozen=True)
class Moment:
    """The state that a computation depends on besides tensors: random generators and the precision of products."""

    device: torch.device
    random: Tensor
    device_random: Tensor | None
    low: torch.dtype | None
    """Of autocast."""
    linears: torch.dtype | None
    """Of linear layers on a CPU."""

    @classmethod
    def now(cls, device: torch.device) -> "Moment":
        own = torch.get_device_module(device.type).get_rng_state(device) if device.type in GENERATORS else None
        return cls(device, torch.get_rng_state(), own, autocast_dtype(device), HalfLinears.current())

    @contextmanager
    def precision(self) -> Iterator[None]:
        # Without autocast's cache: it would reuse weights that were cast without a gradient.
        linears = nullcontext() if self.linears is None else HalfLinears(self.linears)
        with autocast_to(self.device, self.low, cache=False), linears:
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restores that state with gradients enabled; on exit the generators are as before."""
        kind = "cuda" if self.device_random is None else self.device.type
        with torch.random.fork_rng([] if self.device_random is None else [self.device], device_type=kind):
            torch.set_rng_state(self.random)
            if self.device_random is not None:
                torch.get_device_module(kind).set_rng_state(self.device_random, self.device)
            with self.precision(), torch.enable_grad():
                yield


class Gradients:
    """∂L/∂source of some tensors, accumulated over parts that are recomputed one after the other."""

    def __init__(self, sources: Sequence[Tensor]) -> None:
        self.places = {id(source): place for place, source in enumerate(sources)}
        self.found: list[Tensor | None] = [None] * len(self.places)

    def through(
        self, f: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor, moment: Moment, sources: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Recompute f(x) in the saved state and backpropagate: returns f(x) and ∂L/∂x, accumulates `sources`."""
        wanted = [source for source in sources if source.requires_grad]
        x = x.detach().requires_grad_()
        with moment.again():
            y = f(x)
        d_x, *d_sources = torch.autograd.grad(y, [x, *wanted], upstream.to(y.dtype), allow_unused=True)
        for source, gradient in zip(wanted, d_sources, strict=True):
            if gradient is not None:
                place = self.places[id(source)]
                before = self.found[place]
                self.found[place] = gradient if before is None else before.add_(gradient)
        return y.detach(), d_x
