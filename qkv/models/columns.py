"""Matrices laid out column by column, as a product with a few rows wants them; one with a single row does not."""

import copy
from typing import TypeVar

from torch import Tensor, nn

from qkv.layers.attention.base import ForInference
from qkv.layers.attention.inference import Projection

Module = TypeVar("Module", bound=nn.Module)


def lay_projections(*attentions: ForInference) -> None:
    """Let the fused products of these attentions have their matrices by columns."""
    for attention in attentions:
        for part in vars(attention).values():
            if isinstance(part, Projection):
                part.weight = by_columns(part.weight)


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
