"""Cross-attention that depends on where the position before attended."""

from typing import ClassVar

import torch
from torch import Tensor

from qkv.functional.attention import merge_heads
from qkv.kernels.dropout import dropout as drop
from qkv.layers.attention.base import Attention, AttentionConfig, Crossing, ForInference
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.inference import InferenceAttention
from qkv.layers.attention.recording import report


class SourceNeeded(Exception):
    """A position cannot be computed before more of the source has been read."""


class CrossConfig(AttentionConfig):
    """Base class of the kinds that follow an output through its source."""

    hint: ClassVar[str] = "it follows an output through its source; use it as cross_attention, and full here"

    @property
    def self_attention(self) -> bool:
        return False

    @property
    def follows_output(self) -> bool:
        return True


class CarryingAttention(Attention):
    """Σ_j w_ij v_j with weights w_i that depend on what query i - 1 carries: `follow`, query by query.

    In training all queries are there at once: `align` gives their weights in one pass or by a scan over them.
    """

    def first(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, C], what the first query is given."""
        raise NotImplementedError

    def follow(self, before: Tensor, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """Weights [B, H, Q, K], and what each query carries to the next [B, H, Q, C].

        `before` [B, H, C] is what the query before the first one carries. Raises `SourceNeeded` if the context is not
        complete and a query has to see what follows.
        """
        raise NotImplementedError

    def align(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        """The weights [B, H, Q, K] of all queries of an output."""
        return self.follow(self.first(q, k), q, k, context)[0]

    def weights(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        return self.align(q, k, context)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        return drop(self.align(q, k, context).to(v.dtype), dropout) @ v

    def _read(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        # What is reported are the weights that were used: in training they may be random.
        weights = self.align(q, k, context)
        report(self.attention_id, lambda: weights)
        dropped = drop(weights.to(v.dtype), self.dropout if self.training else 0.0)
        return self.output(merge_heads(dropped @ v))

    def faster_inference(self) -> ForInference | None:
        return CarryingInference(self)


class CarryingInference(InferenceAttention):
    """Each row continues from the state that its last position carries, which is cached with the keys and values."""

    module: CarryingAttention

    def cross_attend(self, x: Tensor, crossing: Crossing) -> Tensor:
        weights, carried, values = self._follow(x, crossing)
        if crossing.carried is not None:
            crossing.block.append(crossing.carried, carried)
        report(self.module.attention_id, lambda: self._by_sentence(weights, crossing))
        return self.output((weights.to(values.dtype) @ values).transpose(1, 2).reshape(x.shape))

    def weights(self, x: Tensor, crossing: Crossing) -> Tensor:
        return self._by_sentence(self._follow(x, crossing)[0], crossing)

    def _follow(self, x: Tensor, crossing: Crossing) -> tuple[Tensor, Tensor, Tensor]:
        """Weights [R, H, W, S], what is carried [R, H, W, C], and the values of each row [R, H, S, E]."""
        width = crossing.block.width
        queries = self.query(x).view(-1, width, self.num_heads, self.head_width).transpose(1, 2)
        hypotheses = len(queries) // len(crossing.source.keys)
        keys, values = (part.repeat_interleave(hypotheses, 0) for part in crossing.source)
        context = crossing.context(hypotheses * width)
        keep = None if context.keep is None else context.keep.repeat_interleave(hypotheses, 0)
        rows = AttentionContext(crossing.block.context.q_pos, context.k_pos, keep=keep, complete=context.complete)
        weights, carried = self.module.follow(self._before(queries, keys, crossing), queries, keys, rows)
        return weights, carried, values

    def _before(self, queries: Tensor, keys: Tensor, crossing: Crossing) -> Tensor:
        """[R, H, C], what the position before the block carries."""
        first, carried, index = self.module.first(queries, keys), crossing.carried, crossing.block.cache_positions
        if carried is None or carried.shape[2] == crossing.block.width:
            return first
        if index is None:
            return carried[:, :, -crossing.block.width - 1]
        begins = index[:, 0]
        before = carried[torch.arange(len(begins), device=begins.device), :, begins.clamp_min(1) - 1]
        return torch.where((begins == 0)[:, None, None], first.to(before.dtype), before)

    def _by_sentence(self, weights: Tensor, crossing: Crossing) -> Tensor:
        """[R, H, W, S] to [B, H, Q, S]: hypotheses, and the positions of each."""
        sentences = weights.unflatten(0, (len(crossing.source.keys), -1))
        return sentences.transpose(1, 2).flatten(2, 3)
