"""`training.compile`: the forward and backward passes as code that `torch.compile` writes for the device.

Modules are compiled in place (`nn.Module.compile`), so the names of parameters and what is saved do not change. Lengths
and rows are symbols in the compiled code: one graph serves batches of all shapes, and is compiled once. Validation
and copies for inference are not compiled.
"""

import shutil
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import nn

from qkv.core.devices import CPU
from qkv.core.errors import UsageError
from qkv.models.base import Model
from qkv.models.transformer.stacks.base import Stack
from qkv.models.transformer.stacks.reversible import Reversible

Compile = Literal["off", "layers", "all"]
BACKEND = "inductor"
COMPILERS = ("c++", "g++", "clang++")


def compile_model(model: Model, what: Compile) -> None:
    """Compile each layer of a model, or all of it, at its first pass; raises UsageError where that cannot be."""
    if what == "off":
        return
    if model.device == CPU and not any(map(shutil.which, COMPILERS)):
        raise UsageError(f"training.compile {what}: no C++ compiler is installed (g++ or clang++); use compile off")
    parts: list[nn.Module] = [model] if what == "all" else _layers(model)
    for part in parts:
        part.compile(dynamic=True, backend=BACKEND)


def uncompiled(what: Compile) -> AbstractContextManager[object]:
    """Context in which a model runs as if it were not compiled: for validation, which would need graphs of its own.

    How many graphs there are would then depend on where a run was resumed, and with them its rounding.
    """
    return nullcontext() if what == "off" else torch.compiler.set_stance("force_eager")


def _layers(model: Model) -> list[nn.Module]:
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if not stacks or any(isinstance(stack.depth, Reversible) for stack in stacks):
        kind = "model.stack reversible" if stacks else f"model.kind {model.kind}"
        raise UsageError(f"training.compile layers: {kind} has no layers that can be compiled alone; use all or off")
    return [layer for stack in stacks for layer in stack.layers]
