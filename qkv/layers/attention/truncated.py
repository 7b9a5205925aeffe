"""Restricted self-attention (section 4 of the paper): a query attends to the keys in a window around it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from qkv.functional.attention import attention_weights
from qkv.functional.masks import Predicate, both, build_mask, causal, dilated, within
from qkv.kernels.window import Window
from qkv.layers.attention.base import Attention, AttentionConfig, Block, ForInference, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.inference import InferenceAttention
from qkv.layers.attention.windowed import ProjectedHeads, windowed_attention
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions


class WindowConfig(AttentionConfig):
    """Base class of the kinds with a sliding window."""

    hint: ClassVar[str] = "a window needs queries and keys of one sequence; use full there"

    @property
    def cross(self) -> bool:
        return False


@attentions.register
class TruncatedConfig(WindowConfig):
    """A sliding window; time and memory are linear in the length."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"left": 1}

    kind: Literal["truncated"] = "truncated"
    left: int = Field(ge=0)
    """Keys before a query that it attends to."""
    right: int | None = Field(default=None, ge=0)
    """Keys after a query that it attends to; none in a decoder. Default: as many as on the left."""
    dilation: int = Field(default=1, ge=1)
    """Only every n-th key of a window n times as wide."""

    @property
    def lookahead(self) -> int:
        return (self.left if self.right is None else self.right) * self.dilation

    @property
    def prunable(self) -> bool:
        return True

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "TruncatedAttention":
        window = Window(self.left, self.left if self.right is None else self.right, self.dilation)
        return TruncatedAttention(d_model, num_heads, window, dropout, positions)


class TruncatedAttention(Attention):
    """head_h = softmax over -left ≤ t ≤ right of the keys i + t dilation; with a causal mask, right is 0."""

    def __init__(
        self, d_model: int, num_heads: int, window: Window, dropout: float = 0.0, positions: Positions | None = None
    ) -> None:
        super().__init__(d_model, num_heads, dropout, positions)
        self.window = window

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        if context.q_pos is context.k_pos and context.predicate in (None, causal):
            heads, window = ProjectedHeads(q, k, v), self.window_in(context)
            return windowed_attention(self.positions, heads, window, context.keep, context.k_position_ids, dropout)
        # A few queries over a longer past, or another mask besides the window.
        return attention_with_positions(
            self.positions, q, k, v, self.mask(context), context.q_position_ids, context.k_position_ids, dropout
        )

    def weights(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        return attention_weights(
            q, k, self.mask(context), self.positions.bias(q, context.q_position_ids, context.k_position_ids)
        )

    def mask(self, context: AttentionContext) -> Tensor | None:
        """[B|1, 1, Q, K], True = in the window and allowed by the context."""
        seen = self.predicate if context.predicate is None else both(self.predicate, context.predicate)
        return build_mask(seen, context.q_pos, context.k_pos, context.keep)

    @property
    def predicate(self) -> Predicate:
        """The definition: who may attend to whom."""
        left, right, dilation = self.window
        return both(within(left * dilation, right * dilation), dilated(dilation))

    def window_in(self, context: AttentionContext) -> Window:
        """The window, without its right side if the context is causal."""
        return self.window._replace(right=0) if context.predicate is causal else self.window

    def faster_inference(self) -> ForInference | None:
        return TruncatedInference(self)


class TruncatedInference(InferenceAttention):
    """One new position reads only the keys of its window from the cache."""

    def __init__(self, module: TruncatedAttention) -> None:
        super().__init__(module)
        self.window = module.window

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Block) -> Tensor:
        if block.width > 1 or block.context.predicate is not None:
            return self.module.attend(q, k, v, block.context)
        last, step = k.shape[2] - 1, self.window.dilation
        first = last - min(self.window.left, last // step) * step
        context = AttentionContext(block.context.q_pos, block.context.k_pos[first::step])
        keys, values = k[:, :, first::step], v[:, :, first::step]
        if self.biased:
            return attention_with_positions(
                self.positions, q, keys, values, None, context.q_position_ids, context.k_position_ids
            )
        return super().attend(q, keys, values, Block(context, 1))
