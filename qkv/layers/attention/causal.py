"""Left-to-right attention, for an encoder that reads its source while it arrives."""

from dataclasses import replace
from typing import Literal

from torch import Tensor

from qkv.functional.masks import both, causal
from qkv.layers.attention.base import AttentionConfig, ForInference, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.multi_head import MultiHeadAttention
from qkv.layers.positions.base import Positions


@attentions.register
class CausalConfig(AttentionConfig):
    """Every query attends to itself and to earlier positions, also in an encoder."""

    kind: Literal["causal"] = "causal"

    @property
    def lookahead(self) -> int:
        return 0

    @property
    def cross(self) -> bool:
        return False

    @property
    def prunable(self) -> bool:
        return True

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "CausalAttention":
        return CausalAttention(d_model, num_heads, dropout, positions)


class CausalAttention(MultiHeadAttention):
    """softmax over j ≤ i of Q Kᵀ / √E"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        return super().attend(q, k, v, _looking_back(context), dropout)

    def weights(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        return super().weights(q, k, _looking_back(context))

    def faster_inference(self) -> ForInference | None:
        return None


def _looking_back(context: AttentionContext) -> AttentionContext:
    if context.predicate is causal:
        return context
    return replace(context, predicate=causal if context.predicate is None else both(causal, context.predicate))
