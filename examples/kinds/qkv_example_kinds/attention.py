"""An attention: the logits are divided by a temperature."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from qkv import Attention, AttentionConfig, AttentionContext, Positions, attentions
from qkv.layers.positions.attention import attention_with_positions


@attentions.register
class SharpenedConfig(AttentionConfig):
    """Logits divided by a temperature."""

    kind: Literal["sharpened"] = "sharpened"
    temperature: float = Field(default=0.5, gt=0)
    """Below 1: fewer keys count."""

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "SharpenedAttention":
        return SharpenedAttention(self.temperature, d_model, num_heads, dropout, positions)


class SharpenedAttention(Attention):
    """softmax(Q K^T / (t sqrt(d_k))) V"""

    def __init__(
        self, temperature: float, d_model: int, num_heads: int, dropout: float, positions: Positions | None
    ) -> None:
        super().__init__(d_model, num_heads, dropout, positions)
        self.temperature = temperature

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        q_pos, k_pos = context.q_position_ids, context.k_position_ids
        return attention_with_positions(self.positions, q / self.temperature, k, v, context.mask, q_pos, k_pos, dropout)
