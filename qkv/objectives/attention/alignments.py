"""Attention that learns from given alignments (Garg et al. 2019)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.alignment import alignment_cross_entropy
from qkv.objectives.attention.base import AttentionLoss, AttentionLossConfig, attention_losses


@attention_losses.register
class AlignmentsConfig(AttentionLossConfig):
    """Cross-entropy of the weights with the alignments of the training data; one head of one layer is usual."""

    needs_alignments: ClassVar[bool] = True

    kind: Literal["alignments"] = "alignments"

    def build(self) -> "GivenAlignments":
        return GivenAlignments(
            weight=self.weight, layers=self.layers, heads=self.heads, warmup=self.warmup, until=self.until
        )


@dataclass(frozen=True, kw_only=True)
class GivenAlignments(AttentionLoss):
    """-1/T Σ_t Σ_s G_ts log A_ts; the row of a target token in G is spread evenly over its links."""

    def cost(self, weights: Tensor, batch: Batch) -> Tensor:
        if batch.alignment is None:
            raise ValueError("the batch has no alignments to learn from")
        return alignment_cross_entropy(weights, batch.alignment, batch.tgt_weight > 0)
