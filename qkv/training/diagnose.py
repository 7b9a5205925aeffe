"""Which module first gave a number that is not finite."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from qkv.data.batch import Batch
from qkv.models.seq2seq import Seq2Seq
from qkv.objectives.teacher_forcing import TeacherForcing


@torch.no_grad()
def first_bad_module(model: Seq2Seq, objective: TeacherForcing, batch: Batch, update: int) -> str:
    """A short phrase: the first weight, else the first module's output, else the loss or the gradient."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"weight {name}"
    bad: list[str] = []
    hooks = [module.register_forward_hook(_recorder(name, bad)) for name, module in model.named_modules() if name]
    try:
        report = objective.training_loss(model, batch, update)
    finally:
        for hook in hooks:
            hook.remove()
    if bad:
        return f"output of {bad[0]}"
    return "gradient" if bool(torch.isfinite(report.sum)) else "loss"


def _recorder(name: str, bad: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def record(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and not bool(torch.isfinite(output).all()):
            bad.append(name)

    return record
