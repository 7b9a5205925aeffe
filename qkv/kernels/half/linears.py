"""Linear layers in 16 bits on a CPU: what `torch.autocast` is for, with shapes that come again.

oneDNN writes code for every new shape of a product, and keeps some of it for ever. Batches have new shapes all the
time, and a run under `torch.autocast` took 22 GB within an hour. Here the rows of a product are padded with zeros to a
multiple of 256, at no cost, since they are copied into 16 bits anyway. Only linear layers count for the time; products
inside attention, whose shapes vary in more ways, stay in float32.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from qkv.core.devices import autocast_dtype, autocast_to

ROWS = 256
"""Rows of a product are a multiple of this, or a power of two below it."""


class _Active(threading.local):
    def __init__(self) -> None:
        self.types: list[torch.dtype] = []


class HalfLinears(TorchFunctionMode):
    """Context in which `F.linear` multiplies in 16 bits; its inputs, outputs and gradients keep their types.

    As every mode of torch functions, it holds in its thread only.
    """

    _active: ClassVar[_Active] = _Active()
    """The types of all such contexts of a thread, the innermost last."""

    def __init__(self, low: torch.dtype) -> None:
        super().__init__()
        self.low = low

    @classmethod
    def current(cls) -> torch.dtype | None:
        """The type of the innermost context; None outside of all."""
        types = cls._active.types
        return types[-1] if types else None

    def __enter__(self) -> "HalfLinears":
        self._active.types.append(self.low)
        super().__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)
        self._active.types.pop()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not F.linear:
            return func(*args, **(kwargs or {}))
        return half_linear(*args, low=self.low, **(kwargs or {}))


def half_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, low: torch.dtype) -> Tensor:
    """x Wᵀ + b, the product in the type `low`; the names are those of `F.linear`."""
    if torch.compiler.is_compiling():
        return F.linear(input.to(low), weight.to(low), None if bias is None else bias.to(low)).to(input.dtype)
    product: Tensor = _HalfLinear.apply(input, weight, bias, low)
    return product


def linear_dtype(device: torch.device) -> torch.dtype | None:
    """The type of the products of linear layers on this device, and of the vocabulary; None: that of their inputs."""
    return (HalfLinears.current() if device.type == "cpu" else None) or autocast_dtype(device)


def products_in(
    device: torch.device, low: torch.dtype | None, cache: bool | None = None
) -> AbstractContextManager[object]:
    """Context in which matrix products on this device have the type `low`, on a CPU only those of linear layers.

    None: their type is that of their inputs.
    """
    if device.type == "cpu" and low is not None:
        return HalfLinears(low)
    return autocast_to(device, low, cache)


class _HalfLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, low: torch.dtype) -> Tensor:
        rows, low_weight = padded_rows(x, low), weight.to(low)
        ctx.save_for_backward(rows, low_weight)
        ctx.shape, ctx.types, ctx.with_bias = x.shape, (x.dtype, weight.dtype), bias is not None
        product = rows @ low_weight.T if bias is None else torch.addmm(bias.to(low), rows, low_weight.T)
        return unpadded(product, x.shape, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        x_type, weight_type = ctx.types
        d_rows = padded_rows(upstream, weight.dtype)
        d_x = unpadded(d_rows @ weight, ctx.shape, x_type) if ctx.needs_input_grad[0] else None
        d_weight = (d_rows.T @ rows).to(weight_type) if ctx.needs_input_grad[1] else None
        # Rounded like the gradient of the weight, so that it does not depend on the type in which a bias is held.
        d_bias = upstream.flatten(0, -2).sum(dim=0).to(weight.dtype).to(weight_type) if ctx.with_bias else None
        return d_x, d_weight, d_bias, None


def padded_rows(x: Tensor, low: torch.dtype) -> Tensor:
    """[..., D] as [rows, D] in the type `low`, with rows of zeros up to a number that comes again."""
    flat = x.reshape(-1, x.shape[-1])
    padded = torch.empty(comes_again(len(flat)), flat.shape[1], dtype=low, device=x.device)
    padded[: len(flat)] = flat
    padded[len(flat) :] = 0
    return padded


def comes_again(rows: int) -> int:
    """The next of few numbers: powers of two up to ROWS, then its multiples."""
    return 1 << max(0, rows - 1).bit_length() if rows <= ROWS else -(-rows // ROWS) * ROWS


def unpadded(product: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """The product without its padding, in the shape of the inputs; no view, so that it can be changed in place."""
    result = torch.empty(*shape[:-1], product.shape[1], dtype=dtype, device=product.device)
    result.view(-1, product.shape[1]).copy_(product[: shape[:-1].numel()])
    return result
