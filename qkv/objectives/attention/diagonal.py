"""Guided attention in logarithms: how little weight is near the diagonal costs."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.alignment import diagonal_likelihood
from qkv.objectives.attention.base import AttentionLoss, AttentionLossConfig, attention_losses


@attention_losses.register
class DiagonalConfig(AttentionLossConfig):
    """The negative logarithm of the weight near the diagonal: a stronger form of guided, for narrow widths."""

    kind: Literal["diagonal"] = "diagonal"
    width: float = Field(default=0.05, gt=0)
    """How far from the diagonal weights are free, as a share of the length."""

    def build(self) -> "Diagonal":
        return Diagonal(
            weight=self.weight,
            layers=self.layers,
            heads=self.heads,
            warmup=self.warmup,
            until=self.until,
            width=self.width,
        )


@dataclass(frozen=True, kw_only=True)
class Diagonal(AttentionLoss):
    """-1/T Σ_t log Σ_s A_ts exp(-(t / T - s / S)² / (2 g²)), with `width` g; END counts as a token."""

    width: float = 0.05

    def cost(self, weights: Tensor, batch: Batch) -> Tensor:
        return diagonal_likelihood(weights, batch.tgt_weight > 0, batch.src_keep, self.width)
