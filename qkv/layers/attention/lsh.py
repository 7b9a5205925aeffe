"""LSH attention of the Reformer (Kitaev et al. 2020): each position attends to those in its hash bucket."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from qkv.core.errors import QkvError
from qkv.functional.attention import masked_softmax, merge_heads, split_heads
from qkv.functional.lsh import bucket_counts, found_pairs, hash_sizes, lsh_scores, shared_keys
from qkv.functional.masks import build_mask, causal
from qkv.kernels.lsh import assign_buckets, lsh_attention
from qkv.layers.attention.base import Attention, AttentionConfig, Block, Crossing, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.recording import report
from qkv.layers.positions.base import Positions


@attentions.register
class LshConfig(AttentionConfig):
    """Queries and keys share a projection and attend within the buckets of a random hash; cost n log n (Reformer)."""

    causal_hint: ClassVar[str | None] = (
        "it sorts and cuts the whole sequence, so that an output would depend on how many tokens follow; "
        "use it as encoder_attention, and full or truncated here"
    )
    hint: ClassVar[str] = (
        "its queries are its keys, and a decoder's are not the source's; use it as encoder_attention, and full here"
    )
    takes_bias: ClassVar[bool] = False

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"chunk": 2}

    kind: Literal["lsh"] = "lsh"
    rounds: int = Field(default=4, ge=1, le=1024)
    """Rounds of hashing; more rounds are closer to full attention."""
    test_rounds: int | None = Field(default=None, ge=1, le=1024)
    """Rounds at inference. Default: rounds."""
    buckets: int | None = Field(default=None, ge=2, le=1 << 20)
    """Buckets of a hash, an even number. Default: about two per chunk, so their number grows with the length."""
    chunk: int = Field(default=64, ge=1)
    """Positions in a chunk; each chunk also attends to the previous one."""
    same_bucket: bool = True
    """Attend only within the same bucket; otherwise to all positions of the chunk and of the previous one."""

    @field_validator("buckets")
    @classmethod
    def _even(cls, buckets: int | None) -> int | None:
        if buckets is not None and buckets % 2:
            raise ValueError(f"a direction and its opposite have a bucket each, so use an even number: {buckets + 1}")
        return buckets

    @property
    def causal(self) -> bool:
        return False

    @property
    def cross(self) -> bool:
        return False

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "LshAttention":
        return LshAttention(
            d_model,
            num_heads,
            dropout,
            positions,
            rounds=self.rounds,
            test_rounds=self.test_rounds,
            buckets=self.buckets,
            chunk=self.chunk,
            same_bucket=self.same_bucket,
            seed=depth,
        )


class LshAttention(Attention):
    """Concat(head_1, ..., head_H) W_o; head_h attends with Q = X W_q^h, K = Q / ‖Q‖, V = X W_v^h.

    In training each pass draws its hashes from torch's generator. Otherwise they are always the same, given by `seed`,
    and those of a sentence do not depend on the rest of its batch.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        positions: Positions | None = None,
        *,
        rounds: int = 4,
        test_rounds: int | None = None,
        buckets: int | None = None,
        chunk: int = 64,
        same_bucket: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(d_model, num_heads, dropout, positions)
        del self.key  # the queries are the keys
        self.rounds, self.test_rounds = rounds, test_rounds or rounds
        self.buckets = buckets
        self.chunk = chunk
        self.same_bucket = same_bucket
        self.seed = seed
        self._fixed = torch.empty(2, 0, num_heads, self.head_width, 0)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        """Self-attention, bidirectional or causal."""
        return self.attend_to_all(x, context or AttentionContext.of(x), self.training)

    def attend_to_all(self, x: Tensor, context: AttentionContext, training: bool) -> Tensor:
        if context.predicate not in (None, causal):
            raise QkvError("LSH attention knows the causal mask only; use full attention for another one")
        q = self.positions.rotate(split_heads(self.query(x), self.num_heads), context.q_position_ids)
        v = split_heads(self.value(x), self.num_heads)
        buckets = self.hash(q.detach(), context.keep, training)
        dropout = self.dropout if training else 0.0
        is_causal = context.predicate is causal
        keys = shared_keys(q)
        output = lsh_attention(q, keys, v, buckets, self.chunk, self.same_bucket, is_causal, context.keep, dropout)
        report(self.attention_id, lambda: self._found_weights(q, keys, buckets, context))
        return self.output(merge_heads(output))

    def _found_weights(self, q: Tensor, k: Tensor, buckets: Tensor, context: AttentionContext) -> Tensor:
        """[B, H, n, n] by the definition: a softmax over all keys that any round found."""
        found = found_pairs(buckets, self.chunk, self.same_bucket, context.keep).any(dim=0)
        allowed = build_mask(context.predicate, context.q_pos, context.k_pos)
        return masked_softmax(lsh_scores(q, k), found if allowed is None else found & allowed)

    def hash(self, q: Tensor, keep: Tensor | None, training: bool) -> Tensor:
        """The buckets [rounds, B, H, n] of queries [B, H, n, E]. Their number depends on each row's length."""
        lengths = torch.full((len(q),), q.shape[2], device=q.device) if keep is None else keep.sum(dim=1)
        counts = bucket_counts(lengths, self.chunk)
        sizes = hash_sizes(counts if self.buckets is None else torch.full_like(counts, self.buckets))
        columns = max(1, int(sizes.max()) // 2)
        if training:
            shape = (2, self.rounds, self.num_heads, self.head_width, columns)
            return assign_buckets(q, torch.randn(shape, device=q.device, dtype=q.dtype), sizes)
        return assign_buckets(q, self._fixed_rotations(columns).to(q), sizes)

    def _fixed_rotations(self, columns: int) -> Tensor:
        """[2, rounds, H, E, columns]; columns are drawn one by one, so that longer sentences only add more."""
        if self._fixed.shape[1] != self.test_rounds or self._fixed.shape[-1] < columns:
            shape = (2, self.test_rounds, self.num_heads, self.head_width)
            seeds = ((self.seed << 20) + column for column in range(columns))  # torch uses 32 bits of a seed
            self._fixed = torch.stack(
                [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds], dim=-1
            )
        return self._fixed[..., :columns]

    def faster_inference(self) -> "LshInference":
        return LshInference(self)


class LshInference:
    """Without dropout and with fixed hashes. It is for encoders only, so it takes no steps."""

    def __init__(self, module: LshAttention) -> None:
        self.module = module

    def extend(self, x: Tensor, past: Tensor | None, block: Block) -> Tensor:
        whole = x.view(-1, block.width, x.shape[-1])
        return self.module.attend_to_all(whole, block.context, training=False).view(x.shape)

    def cross_attend(self, x: Tensor, crossing: Crossing) -> Tensor:
        raise NotImplementedError

    def weights(self, x: Tensor, crossing: Crossing) -> Tensor:
        raise NotImplementedError
