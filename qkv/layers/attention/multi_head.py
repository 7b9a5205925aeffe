"""Multi-head attention, the paper's, with a choice of score and normaliser."""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from qkv.functional.attention import masked_softmax
from qkv.kernels.dropout import dropout as drop
from qkv.layers.attention.base import Attention, AttentionConfig, ForInference, attentions, share_heads
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.inference import InferenceAttention
from qkv.layers.attention.normalizers import AnyNormalizer, Normalizer, SoftmaxConfig
from qkv.layers.attention.scores import AnyScore, AttentionScore, ScaledDot, ScaledDotConfig
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions


@attentions.register
class FullConfig(AttentionConfig):
    """Every query attends to every key, as in the paper."""

    renamed: ClassVar = {"weigh": "normalizer"}
    kind: Literal["full"] = "full"
    score: AnyScore = ScaledDotConfig()
    """The score of a query and a key."""
    normalizer: AnyNormalizer = SoftmaxConfig()
    """How scores become weights."""
    kv_heads: int | None = Field(default=None, ge=1)
    """Heads of keys and values, each shared by a group of query heads (1: multi-query). Default: num_heads."""

    @property
    def prunable(self) -> bool:
        return self.kv_heads is None and self.score.alike

    def problem(self, num_heads: int, num_layers: int) -> str | None:
        if self.kv_heads is None or num_heads % self.kv_heads == 0:
            return None
        possible = ", ".join(str(heads) for heads in range(1, num_heads + 1) if num_heads % heads == 0)
        return f"kv_heads ({self.kv_heads}) must divide num_heads ({num_heads}): {possible}"

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "MultiHeadAttention":
        score = self.score.build(num_heads, d_model // num_heads)
        return MultiHeadAttention(
            d_model, num_heads, dropout, positions, self.kv_heads, score, self.normalizer.function
        )


class MultiHeadAttention(Attention):
    """Concat(head_1, ..., head_H) W_o with head_h = softmax(Q W_q^h (K W_k^h)^T / sqrt(E)) V W_v^h.

    `score` replaces the scaled dot product, `normalize` the softmax.

    Examples:
        >>> import torch
        >>> from qkv import AttentionContext, MultiHeadAttention, Rope
        >>> attention = MultiHeadAttention(d_model=64, num_heads=4, positions=Rope(head_width=16))
        >>> x = torch.randn(2, 5, 64)
        >>> attention(x).shape
        torch.Size([2, 5, 64])
        >>> attention(x, AttentionContext.of(x, causal=True)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        positions: Positions | None = None,
        kv_heads: int | None = None,
        score: AttentionScore | None = None,
        normalize: Normalizer = masked_softmax,
    ) -> None:
        super().__init__(d_model, num_heads, dropout, positions, kv_heads)
        self.score = score or ScaledDot()
        self.normalize = normalize

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        v, q_pos, k_pos = share_heads(v, self.num_heads), context.q_position_ids, context.k_position_ids
        if self.score.is_dot and self.normalize is masked_softmax:
            q, k = self.score.queries(q), share_heads(self.score.keys(k), self.num_heads)
            return attention_with_positions(self.positions, q, k, v, context.mask, q_pos, k_pos, dropout)
        weights = drop(self.weights(q, k, context).to(v.dtype), dropout)
        output, mixed = weights @ v, self.positions.value_term(weights, q_pos, k_pos)
        return output if mixed is None else output + mixed

    def weights(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        """[B, H, Q, K] of rotated queries [B, H, Q, E] and keys [B, KV heads, K, E]."""
        q, k = self.score.queries(q), share_heads(self.score.keys(k), self.num_heads)
        scores, bias = self.score(q, k), self.positions.bias(q, context.q_position_ids, context.k_position_ids)
        return self.normalize(scores if bias is None else scores + bias, context.mask)

    def faster_inference(self) -> ForInference | None:
        plain = self.score.is_scaled_dot and self.normalize is masked_softmax
        return InferenceAttention(self) if plain else None
