"""A function of each position on its own, a few positions at a time, so that what is wide in between stays small."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from qkv.shapes import Hidden


def in_slices(f: Callable[[Tensor], Tensor], x: Hidden, size: int) -> Hidden:
    """f(x), computed on slices of at most `size` positions.

    For the backward pass each slice keeps its input only and is computed again, with the same random numbers.
    """
    if x.shape[-2] <= size:
        return f(x)
    if not torch.is_grad_enabled():
        return torch.cat([f(part) for part in x.split(size, dim=-2)], dim=-2)
    return torch.cat([checkpoint(f, part, use_reentrant=False) for part in x.split(size, dim=-2)], dim=-2)
