"""Matrices laid out column by column, as a product with a few rows wants them; one with a single row does not."""

import copy
from typing import TypeVar

from torch import Tensor, nn

from qkv.layers.attention.base import ForInference
from qkv.layers.attention.inference import Projection
from qkv.models.inference_layers import MemoryProjections

Module = TypeVar("Module", bound=nn.Module)


def lay_projections(*owners: ForInference | MemoryProjections) -> None:
    """Let the fused products of these have their matrices by columns."""
    for owner in owners:
        for part in vars(owner).values():
            for projection in part if isinstance(part, list) else [part]:
                if isinstance(projection, Projection):
                    projection.weight = by_columns(projection.weight)


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
