"""How matrices lie in memory: by columns, a product with a few rows is faster; with a single row it is slower."""

import copy
from typing import TypeVar

from torch import Tensor, nn

from qkv.layers.attention.inference import FusedLinear

Module = TypeVar("Module", bound=nn.Module)


def by_columns(matrix: Tensor) -> Tensor:
    """The same matrix, column by column in memory."""
    return matrix.t().contiguous().t()


def copied_by_columns(module: Module) -> Module:
    """A copy of a module in evaluation mode, with the matrices of its linear layers by columns."""
    copied = copy.deepcopy(module).eval()
    for part in copied.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = by_columns(part.weight.data)
    return copied


def lay_by_columns(*owners: object) -> None:
    """Lay out the fused projections that these objects hold by columns."""
    for owner in owners:
        for part in vars(owner).values():
            for projection in part if isinstance(part, list) else [part]:
                if isinstance(projection, FusedLinear):
                    projection.weight = by_columns(projection.weight)
