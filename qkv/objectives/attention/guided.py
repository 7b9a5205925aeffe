"""Guided attention: weights far from the diagonal cost (Tachibana et al. 2018)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.alignment import guided_attention
from qkv.objectives.attention.base import AttentionLoss, AttentionLossConfig, attention_losses


@attention_losses.register
class GuidedConfig(AttentionLossConfig):
    """Weights far from the diagonal cost: for tasks whose output runs along the input, such as letters to sounds."""

    kind: Literal["guided"] = "guided"
    width: float = Field(default=0.2, gt=0)
    """The paper's g: how far from the diagonal weights are free, as a share of the length."""

    def build(self) -> "Guided":
        return Guided(
            weight=self.weight,
            layers=self.layers,
            heads=self.heads,
            warmup=self.warmup,
            until=self.until,
            width=self.width,
        )


@dataclass(frozen=True, kw_only=True)
class Guided(AttentionLoss):
    """mean over the cells of A_ts (1 - exp(-(t / T - s / S)² / (2 g²))), with `width` g; END counts as a token.

    Examples:
        >>> from qkv.objectives.attention.guided import Guided
        >>> Guided(width=0.3, weight=5.0, until=1000).weight_at(500)
        2.5
    """

    width: float = 0.2

    def cost(self, weights: Tensor, batch: Batch) -> Tensor:
        return guided_attention(weights, batch.tgt_weight > 0, batch.src_keep, self.width)
