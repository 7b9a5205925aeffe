"""Auxiliary losses of a model (see `auxiliary_losses`), added to the objective."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.models.base import Model
from qkv.models.transformer.channels import auxiliary_losses
from qkv.objectives.base import LossReport

TrainingLoss = Callable[[Any, Model, Batch, int], LossReport]


def with_auxiliary_losses(training_loss: TrainingLoss) -> TrainingLoss:
    """Decorator of an objective's `training_loss`: sum + Σ over sentences of (target tokens) · (cost of the sentence).

    A cost counts for each target token as the objective's own loss does, so it does not depend on how an update is
    cut into micro-batches. It is not part of the likelihood. Passes without gradients add no cost.
    """

    @wraps(training_loss)
    def with_costs(self: Any, model: Model, batch: Batch, update: int) -> LossReport:
        with auxiliary_losses.listen() as costs:
            report = training_loss(self, model, batch, update)
        tokens, learning = batch.tgt_weight.sum(dim=1), report.sum.requires_grad
        counted = [cost for cost in costs if cost.requires_grad == learning]
        return replace(report, sum=sum((_total(cost, tokens) for cost in counted), report.sum))

    return with_costs


def _total(cost: Tensor, tokens: Tensor) -> Tensor:
    """An objective that passes a batch several times as one has the mean of its passes."""
    return torch.dot(cost.view(-1, len(tokens)).mean(dim=0).to(tokens), tokens)
