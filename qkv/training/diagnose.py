"""Finds the first module whose output is not finite."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qkv.data.tasks.base import TrainingBatch
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.training.step.precision import Precision


def find_first_bad(
    model: Model, objective: Objective, batches: Sequence[TrainingBatch], update: int, precision: Precision
) -> str:
    """A short phrase: the first bad weight, else module output or loss of a batch, else gradient.

    The passes are recomputed with new dropout, so a failure that depended on one mask shows only in the gradient.
    """
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"weight {name}"
    for batch in batches:
        with torch.no_grad(), precision.autocast():
            if bad := _bad_in_pass(model, objective, batch.to(model.device), update):
                return bad
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return f"gradient of {name}"
    return "sum over the batches"


def _bad_in_pass(model: Model, objective: Objective, batch: TrainingBatch, update: int) -> str | None:
    bad: list[str] = []
    hooks = [module.register_forward_hook(_recorder(name, bad)) for name, module in model.named_modules() if name]
    try:
        report = objective.training_loss(model, batch, update)
    finally:
        for hook in hooks:
            hook.remove()
    if bad:
        return f"output of {bad[0]}"
    return None if bool(torch.isfinite(report.sum)) else "loss"


def _recorder(name: str, bad: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def record(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and not bool(torch.isfinite(output).all()):
            bad.append(name)

    return record
