"""Memory layout of matrices: column-major is faster for products with a few rows, slower for a single row."""

import copy
from typing import TypeVar

from torch import Tensor, nn

from qkv.layers.attention.inference import FusedLinear

Module = TypeVar("Module", bound=nn.Module)


def by_columns(matrix: Tensor) -> Tensor:
    """The same matrix in column-major layout."""
    return matrix.t().contiguous().t()


def copied_by_columns(module: Module) -> Module:
    """A copy of a module in evaluation mode, with column-major linear layers."""
    copied = copy.deepcopy(module).eval()
    for part in copied.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = by_columns(part.weight.data)
    return copied


def lay_by_columns(*owners: object) -> None:
    """Convert the fused projections of these objects to column-major layout."""
    for owner in owners:
        for part in vars(owner).values():
            for projection in part if isinstance(part, list) else [part]:
                if isinstance(projection, FusedLinear):
                    projection.weight = by_columns(projection.weight)
