"""Coverage loss: attending again to what was attended to before costs (See et al. 2017)."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.copying.coverage import coverage_loss
from qkv.objectives.attention.base import AttentionLoss, AttentionLossConfig, attention_losses


@attention_losses.register
class CoverageConfig(AttentionLossConfig):
    """Attending again to the same source tokens costs: against repetitions, with a head that copies above all."""

    kind: Literal["coverage"] = "coverage"

    def build(self) -> "Coverage":
        return Coverage(weight=self.weight, layers=self.layers, heads=self.heads, warmup=self.warmup, until=self.until)


@dataclass(frozen=True, kw_only=True)
class Coverage(AttentionLoss):
    """mean over the target tokens of Σ_s min(a_ts, Σ_{t' < t} a_t's), with a the mean of the heads.

    Examples:
        >>> from qkv.objectives.attention.coverage import Coverage
        >>> Coverage(weight=2.0, warmup=100).weight_at(50)
        1.0
    """

    def cost(self, weights: Tensor, batch: Batch) -> Tensor:
        real = (batch.tgt_weight > 0).to(weights)
        return (coverage_loss(weights.mean(dim=1)) * real).sum(dim=1) / real.sum(dim=1)
