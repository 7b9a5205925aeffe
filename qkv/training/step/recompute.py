"""Activation checkpointing: the backward pass computes each layer again from its input, which is all that is kept."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from qkv.core.errors import UsageError
from qkv.kernels.half.linears import HalfLinears
from qkv.layers.attention.recording import recomputing
from qkv.models.base import Model
from qkv.models.transformer.stacks.base import separate_layers


def recompute_layers(model: Model) -> None:
    """From now on each layer of `model` keeps only its input, with the same gradients and the same dropout."""
    layers = separate_layers(model)
    if not layers:
        raise UsageError(
            f"training.activation_checkpointing: this model of the kind {model.kind} has no layers that "
            "can be computed again one by one; leave it out"
        )
    for layer in layers:
        _recompute(layer)


def _recompute(layer: nn.Module) -> None:
    plain: Callable[..., Any] = layer.forward

    def forward(*inputs: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*inputs)
        return checkpoint(plain, *inputs, use_reentrant=False, context_fn=_contexts)

    layer.forward = forward


def _contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts of a pass and of its recomputation, which is for the same observers and in the same precision."""
    first, again = recomputing()
    low = HalfLinears.current()
    return first, again if low is None else _in_half(again, low)


@contextmanager
def _in_half(context: AbstractContextManager[None], low: torch.dtype) -> Iterator[None]:
    with context, HalfLinears(low):
        yield
