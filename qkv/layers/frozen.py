"""Copies of modules for inference."""

import copy
from typing import TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def frozen_copy(module: Module) -> Module:
    """A copy in evaluation mode, without gradients. Further training does not change its weights."""
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    without = {id(gradient): None for gradient in gradients}  # what deepcopy takes for their copies
    return copy.deepcopy(module, without).eval().requires_grad_(False)
