"""The objective interface, and its report."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.core.devices import widest_float
from qkv.data.batch import Batch
from qkv.models.base import Model


@dataclass(frozen=True)
class LossReport:
    """Sums, not means: the trainer sums the reports of an update and divides once.

    So the result does not depend on how an update is split into micro-batches or over workers. Sums that were computed
    are tensors and stay on their device: the trainer reads the total of an update once.
    """

    sum: Tensor
    """What is minimised, summed over the target tokens; has a gradient."""
    nll: Tensor | float
    """Plain negative log-likelihood, summed; used for the perplexity. It has no gradient."""
    weight: Tensor | float
    """The number of target tokens that count."""
    left_out: Tensor | int = 0
    """Pairs that the model cannot learn as they are, because the target does not fit its canvas."""
    likelihood: bool = True
    """Whether `nll` is one; else it is what is minimised, and has no perplexity."""

    @property
    def numbers(self) -> Tensor:
        """[4]: loss, nll, weight and left out, in the widest type of their device."""
        wide, device = widest_float(self.sum.device), self.sum.device
        parts = (self.sum.detach(), self.nll, self.weight, self.left_out)
        return torch.stack(
            [
                part.to(wide) if isinstance(part, Tensor) else torch.full((), part, dtype=wide, device=device)
                for part in parts
            ]
        )


class Objective(Protocol):
    """A batch of its data task and a model to a loss."""

    def training_loss(self, model: Model, batch: Any, update: int) -> LossReport:
        """With noise and regularisation; `update` counts from 1."""

    def validation_loss(self, model: Model, batch: Any) -> LossReport:
        """Plain negative log-likelihood; deterministic."""


def without_end(batch: Batch, pad: int) -> tuple[Tensor, Tensor]:
    """Targets [B, U] and their lengths [B]; END, which stands last in each row, becomes padding. U is 1 at least."""
    lengths = (batch.tgt_weight > 0).sum(dim=1) - 1
    targets = batch.tgt_out[:, : max(1, batch.tgt_out.shape[1] - 1)]
    inside = torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]
    return targets.masked_fill(~inside, pad), lengths
