"""Wait-k (Ma et al. 2019): the output stays k tokens behind the source, whatever they are."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.functional.masks import build_mask, reading
from qkv.layers.attention.base import Attention, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.base import CrossConfig, SourceNeeded
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions


@attentions.register
class WaitKConfig(CrossConfig):
    """Output i attends to the first i + k - 1 source tokens; needs an encoder that does not look ahead."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 2}

    kind: Literal["wait_k"] = "wait_k"
    k: int = Field(ge=1)
    """Source tokens that are read before the first output; after it, one for each output."""

    @property
    def streams(self) -> bool:
        return True

    @property
    def hides_source(self) -> bool:
        return True

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "WaitKAttention":
        return WaitKAttention(d_model, num_heads, self.k, dropout)


class WaitKAttention(Attention):
    """softmax over j < i + k of Q Kᵀ / √E, with i = 1, 2, ... the place of the output; at the end over all keys."""

    def __init__(self, d_model: int, num_heads: int, k: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.k = k

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        if not context.complete and int(context.q_pos.max()) + self.k > len(context.k_pos):
            raise SourceNeeded
        mask = build_mask(reading(self.k), context.q_pos, context.k_pos, context.keep)
        return attention_with_positions(self.positions, q, k, v, mask, context.q_pos, context.k_pos, dropout)


def set_wait(model: nn.Module, k: int) -> None:
    """Decode with another k than in training; raises UsageError if the model has no wait-k attention.

    A searched copy of the model keeps the k that it was made with.
    """
    found = [module for module in model.modules() if isinstance(module, WaitKAttention)]
    if not found:
        raise UsageError("the model has no attention of the kind wait_k, so it has no k; train one with wait_k")
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    for module in found:
        module.k = k
