"""Losses on the cross-attention weights, added to teacher forcing: one file per kind."""

from typing import Annotated

from qkv.objectives.attention import alignments, coverage, diagonal, guided
from qkv.objectives.attention.base import AttentionLoss, AttentionLossConfig, attention_losses

AnyAttentionLoss = Annotated[AttentionLossConfig, attention_losses]

__all__ = [
    "AnyAttentionLoss",
    "AttentionLoss",
    "AttentionLossConfig",
    "alignments",
    "attention_losses",
    "coverage",
    "diagonal",
    "guided",
]
