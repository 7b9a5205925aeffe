"""Matrices laid out column by column, as a product with a few rows wants them; one with a single row does not."""

import copy
from typing import TypeVar

from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def by_columns(matrix: Tensor) -> Tensor:
    """The same matrix in another order in memory."""
    return matrix.t().contiguous().t()


def laid_by_columns(module: Module) -> Module:
    """A copy of a module that computes the same in evaluation mode, faster for a few rows."""
    laid = copy.deepcopy(module).eval()
    for part in laid.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = by_columns(part.weight.data)
    return laid
