"""The base class of all attention kinds, its config, and the registry."""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config.base import Config, Kinds
from qkv.functional.attention import merge_heads, split_heads
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.head_passes import HeadPass, report_heads
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.positions.base import Positions


class KeyValue(NamedTuple):
    """Projected keys and values of one attention, [B, KV heads, K, E] each; keys are already rotated."""

    keys: Tensor
    values: Tensor


class Block(NamedTuple):
    """The new positions of an inference pass, W per row, and the keys that they may attend to."""

    context: AttentionContext
    width: int
    """W"""
    additive_mask: Tensor | None = None
    """`context.mask` for PyTorch's kernel, 0 or -inf, [1|R, 1, 1|W, K]; None: every key may be attended to."""
    cache_positions: Tensor | None = None
    """[R, W], where the keys and values of the new positions go in the cache; None: at its end."""

    def append(self, past: Tensor, key_value: Tensor) -> Tensor:
        """Write the new keys and values [R, 2 KV heads, W, E] to `past` [R, 2 KV heads, K, E] and return it."""
        if self.cache_positions is None:
            past.narrow(2, past.shape[2] - self.width, self.width).copy_(key_value)
        else:
            past.scatter_(2, self.cache_positions[:, None, :, None].expand_as(key_value), key_value)
        return past


class Crossing(NamedTuple):
    """The source as the new positions of an inference pass attend to it, in one layer."""

    source: KeyValue
    block: Block
    padding: Tensor | None = None
    """[B, 1, 1, S], an additive mask."""
    carried: Tensor | None = None
    """[R, H, K, C], what each position carries to the next (see `Attention.carried_width`); the new positions' part is
    appended."""
    complete: bool = True
    """Whether the source has ended; otherwise more of it may follow."""

    def context(self, queries: int) -> AttentionContext:
        """The context of the queries of a sentence: its hypotheses, and the positions of each."""
        keys, q_pos = self.source.keys, self.block.context.q_pos
        k_pos = torch.arange(keys.shape[2], device=keys.device)
        q_pos = q_pos.repeat(queries // len(q_pos)) if q_pos.dim() == 1 else q_pos.view(len(keys), queries)
        keep = None if self.padding is None else self.padding[:, 0, 0] == 0
        return AttentionContext(q_pos, k_pos, keep=keep, complete=self.complete)


@runtime_checkable
class ForInference(Protocol):
    """Attention without gradients. `x` are rows [N, D], or any shape that can be viewed as such."""

    def extend(self, x: Tensor, past: Tensor | None, block: Block) -> Tensor:
        """Self-attention of the block's positions [R W, D].

        With `past` [R, 2 KV heads, K, E], the KV cache of this layer (keys first, then values), they also attend to
        its content, and their own keys and values are appended to it. Without it, the block is the whole sequence.
        """
        ...

    def cross_attend(self, x: Tensor, crossing: Crossing) -> Tensor:
        """Cross-attention of rows [B Q, D] to their sources.

        The hypotheses of a sentence, and the positions of each, are the queries of one attention.
        """
        ...

    def weights(self, x: Tensor, crossing: Crossing) -> Tensor:
        """The weights of `cross_attend`, [B, H, Q, S]."""
        ...


class AttentionConfig(Config):
    """Base class of the configs of attention kinds.

    Examples:
        >>> from qkv import attentions
        >>> attentions["full"](kv_heads=2).build(d_model=64, num_heads=4, dropout=0.0, positions=None, depth=0).kv_heads
        2
    """

    hint: ClassVar[str] = "use full there"
    """What to do where this kind is not allowed."""
    causal_hint: ClassVar[str | None] = None
    """The same, where it is not allowed in a decoder only."""
    takes_bias: ClassVar[bool] = True
    """Whether a position scheme may add to its logits."""

    kind: str

    @property
    def self_attention(self) -> bool:
        """Whether it may be a self-attention at all."""
        return True

    @property
    def lookahead(self) -> int | None:
        """On how many positions after it a position of the encoder depends, with this self-attention, in each layer.

        None: on all of them.
        """
        return None

    @property
    def follows_output(self) -> bool:
        """Whether the weights of cross-attention depend on the place of the output, or on where it attended before."""
        return False

    @property
    def hides_source(self) -> bool:
        """Whether cross-attention hides tokens of the source, which the encoder must not give away."""
        return False

    @property
    def streams(self) -> bool:
        """Whether cross-attention can write before the source has ended."""
        return False

    @property
    def causal(self) -> bool:
        """Whether it may be the self-attention of a decoder."""
        return True

    @property
    def cross(self) -> bool:
        """Whether it may be the cross-attention of a decoder."""
        return True

    @property
    def prunable(self) -> bool:
        """Whether single heads can be removed: all that is different between heads are slices of the projections."""
        return False

    def problem(self, num_heads: int, num_layers: int) -> str | None:
        """Why it does not support these sizes; None: it does."""
        return None

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "Attention":
        """The attention of the layer at `depth` (0: the first); `positions` None: no positions."""
        raise NotImplementedError


attentions = Kinds[AttentionConfig]("attention")
"""Registry of the attention kinds: `@attentions.register` above a config makes its `kind` known."""


class Attention(nn.Module):
    """Projects to heads, calls the kind's `attend`, and joins the heads: Concat(head_1, ..., head_H) W_o.

    With `kv_heads` < `num_heads`, several query heads read the same keys and values (Ainslie et al. 2023).
    `positions` may rotate queries and keys and add to the logits; cross-attention has none.

    Examples:
        >>> import torch
        >>> from qkv import Attention, AttentionContext
        >>> class MeanAttention(Attention):
        ...     def attend(self, q, k, v, context, dropout=0.0):
        ...         return v.mean(dim=2, keepdim=True).expand_as(q)
        >>> MeanAttention(d_model=64, num_heads=4)(torch.randn(2, 5, 64)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        positions: Positions | None = None,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads ({num_heads}) must divide d_model ({d_model})")
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.num_heads = num_heads
        self.kv_heads = kv_heads or num_heads
        if num_heads % self.kv_heads:
            raise ValueError(f"kv_heads ({kv_heads}) must divide num_heads ({num_heads})")
        self.head_width = d_model // num_heads
        self.dropout = dropout
        self.positions = positions or Positions()
        key_width = self.kv_heads * self.head_width
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, key_width)
        self.value = nn.Linear(d_model, key_width)
        self.output = nn.Linear(d_model, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        """Self-attention: queries, keys and values come from `x`, by one product with [W_q; W_k; W_v].

        Without a context, every position may attend to every other.
        """
        context = context or AttentionContext.of(x)
        return self._read(*self.heads(x, context), context)

    def heads(self, x: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [B, H, n, E], rotated keys and values [B, KV heads, n, E] of one sequence [B, n, D]."""
        queries, keys, values = _linears(x, (self.query, self.key, self.value))
        return self._queries(queries, context), *self._key_value(keys, values, context.k_position_ids)

    def project(self, memory: Tensor, k_pos: Tensor) -> KeyValue:
        """Keys and values of `memory`, computed once and attended to many times."""
        keys, values = _linears(memory, (self.key, self.value))
        return self._key_value(keys, values, k_pos)

    def cross_attend(self, x: Tensor, key_value: KeyValue, context: AttentionContext) -> Tensor:
        """Attention of `x` to projected keys and values."""
        return self._read(self._queries(self.query(x), context), *key_value, context)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
        output = self.attend(q, k, v, context, self.dropout if self.training else 0.0)
        report(self.attention_id, lambda: self.weights(q, k, context))
        report_heads(self.attention_id.name, HeadPass(q, k, v, context))
        return self.output(merge_heads(output))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float = 0.0) -> Tensor:
        """Rotated queries [B, H, Q, E] and keys, values [B, KV heads, K, E] to the output [B, H, Q, E]."""
        raise NotImplementedError

    def weights(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        """[B, H, Q, K]: the output of `attend` for one-hot values."""
        identity = torch.eye(k.shape[2], dtype=q.dtype, device=q.device)
        return self.attend(q, k, identity.expand(*k.shape[:2], -1, -1), context)

    def carried_width(self, keys: int) -> int:
        """How many numbers a head carries from each query to the next, over so many keys; 0: queries are independent.

        Only cross-attention may carry something.
        """
        return 0

    def faster_inference(self) -> "ForInference | None":
        """A faster inference path, without dropout, if the kind has one.

        Otherwise `inference.for_inference` derives one from `attend`."""
        return None

    def _key_value(self, keys: Tensor, values: Tensor, k_pos: Tensor) -> KeyValue:
        rotated = self.positions.rotate(split_heads(keys, self.kv_heads), k_pos)
        return KeyValue(rotated, split_heads(values, self.kv_heads))

    def _queries(self, queries: Tensor, context: AttentionContext) -> Tensor:
        return self.positions.rotate(split_heads(queries, self.num_heads), context.q_position_ids)


def _linears(x: Tensor, linears: Iterable[nn.Linear]) -> tuple[Tensor, ...]:
    """Several linear maps of one input as one product."""
    parts = list(linears)
    weight = torch.cat([linear.weight for linear in parts])
    bias = torch.cat([linear.bias for linear in parts])
    return F.linear(x, weight, bias).split([linear.out_features for linear in parts], dim=-1)


def share_heads(x: Tensor, num_heads: int) -> Tensor:
    """[B, KV heads, K, E] to [B, H, K, E]: repeat each head of keys or values for the query heads of its group."""
    group = num_heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)
