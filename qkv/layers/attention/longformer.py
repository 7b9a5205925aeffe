"""Longformer (Beltagy et al. 2020): a sliding window, and a few global tokens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveInt, field_validator
from torch import Tensor, nn

from qkv.core.errors import QkvError
from qkv.functional.attention import attention_weights, merge_heads, split_heads
from qkv.functional.masks import build_mask
from qkv.kernels.window import Everywhere, Window
from qkv.layers.attention.base import Block, ForInference, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.recording import report
from qkv.layers.attention.truncated import TruncatedAttention, TruncatedInference, WindowConfig
from qkv.layers.attention.windowed import ProjectedHeads, Shown, windowed_attention
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions


@attentions.register
class LongformerConfig(WindowConfig):
    """A sliding window, and global tokens with their own projections, as in the encoder of LED."""

    causal_hint: ClassVar[str | None] = (
        "its global tokens would show the future; leave global_positions and global_tokens empty there, "
        "or set them in encoder_attention"
    )

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"window": 2, "global_positions": [0]}

    kind: Literal["longformer"] = "longformer"
    window: PositiveInt | tuple[PositiveInt, ...]
    """Width of the window, half of it on each side (a decoder has the left half); a list: one per layer."""
    dilation: PositiveInt | tuple[PositiveInt, ...] = 1
    """Only every n-th key of a window n times as wide; a list: one per layer."""
    global_positions: tuple[int, ...] = ()
    """Positions that attend to all tokens and are attended to by all; 0 is the first."""
    global_tokens: tuple[str, ...] = ()
    """Tokens that are global at every position, as written in the vocabulary."""

    @field_validator("window")
    @classmethod
    def _even(cls, window: int | tuple[int, ...]) -> int | tuple[int, ...]:
        odd = [width for width in ([window] if isinstance(window, int) else window) if width % 2]
        if odd:
            raise ValueError(f"a window of {odd[0]} has no two halves; use {odd[0] - 1 or 2} or {odd[0] + 1}")
        return window

    @field_validator("global_positions")
    @classmethod
    def _from_the_start(cls, positions: tuple[int, ...]) -> tuple[int, ...]:
        if any(position < 0 for position in positions):
            raise ValueError("positions count from 0, the first token; mark the last one by its text in global_tokens")
        return positions

    @property
    def causal(self) -> bool:
        return not (self.global_positions or self.global_tokens)

    def problem(self, num_heads: int, num_layers: int) -> str | None:
        for name, value in (("window", self.window), ("dilation", self.dilation)):
            if isinstance(value, tuple) and len(value) != num_layers:
                return f"{name} has {len(value)} numbers for {num_layers} layers of their own; give one, or one a layer"
        return None

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> TruncatedAttention:
        half = _at(self.window, depth) // 2
        window = Window(half, half, _at(self.dilation, depth))
        if self.causal:
            return TruncatedAttention(d_model, num_heads, window, dropout, positions)
        texts = self.global_tokens
        return LongformerAttention(d_model, num_heads, window, dropout, positions, self.global_positions, texts)


def _at(value: int | tuple[int, ...], depth: int) -> int:
    return value if isinstance(value, int) else value[depth]


class LongformerAttention(TruncatedAttention):
    """i ∉ G: one softmax over window(i) ∪ G; i ∈ G: over everything, with separate W_q, W_k and W_v.

    G are the real tokens at `global_positions`, and those whose ids `learn_ids` found for `global_tokens`.
    """

    global_positions: Tensor
    global_ids: Tensor

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        window: Window,
        dropout: float = 0.0,
        positions: Positions | None = None,
        global_positions: Sequence[int] = (),
        global_tokens: Sequence[str] = (),
    ) -> None:
        super().__init__(d_model, num_heads, window, dropout, positions)
        self.query_global, self.key_global, self.value_global = (nn.Linear(d_model, d_model) for _ in range(3))
        self.global_tokens = tuple(global_tokens)
        self.register_buffer("global_positions", torch.tensor(global_positions, dtype=torch.long), persistent=False)
        self.register_buffer("global_ids", torch.empty(0, dtype=torch.long), persistent=False)
        self.reset_global()

    def reset_global(self) -> None:
        """The projections of global tokens are initialised as copies of the others."""
        pairs = ((self.query_global, self.query), (self.key_global, self.key), (self.value_global, self.value))
        for own, other in pairs:
            own.load_state_dict(other.state_dict())

    def learn_ids(self, id_of: Callable[[str], int]) -> None:
        """Find the global tokens in a vocabulary."""
        ids = [id_of(token) for token in self.global_tokens]
        self.global_ids = torch.tensor(ids, dtype=torch.long, device=self.global_ids.device)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        return self.run(x, context or AttentionContext.of(x), self.dropout if self.training else 0.0)

    def run(self, x: Tensor, context: AttentionContext, dropout: float) -> Tensor:
        """Self-attention over sequences [B, n, D]."""
        heads, position_ids = ProjectedHeads(*self.heads(x, context)), context.k_position_ids.expand(len(x), x.shape[1])
        chosen = _Chosen(self.is_global(context, len(x)))
        if chosen.count == 0:
            output = windowed_attention(self.positions, heads, self.window, context.keep, position_ids, dropout)
        else:
            keys = Everywhere(chosen.of_heads(heads.k), chosen.of_heads(heads.v), chosen.real)
            near = ~chosen.mask if context.keep is None else context.keep & ~chosen.mask
            shown = Shown(keys, chosen.of_rows(position_ids))
            output = windowed_attention(self.positions, heads, self.window, near, position_ids, dropout, shown)
            output = chosen.put(output, self._see_everything(x, chosen, context, position_ids, dropout))
        report(self.attention_id, lambda: self._all_weights(x, heads, chosen, context, position_ids))
        return self.output(merge_heads(output))

    def _all_weights(
        self, x: Tensor, heads: ProjectedHeads, chosen: "_Chosen", context: AttentionContext, position_ids: Tensor
    ) -> Tensor:
        """[B, H, n, n] by the definition: a window and the global tokens, or everything for these themselves."""
        keep = torch.ones_like(chosen.mask) if context.keep is None else context.keep
        window = build_mask(self.predicate, context.q_pos, context.k_pos)
        assert window is not None
        near = (window | chosen.mask[:, None, None]) & keep[:, None, None]
        weights = attention_weights(heads.q, heads.k, near, self.positions.bias(heads.q, position_ids, position_ids))
        q, k = (
            self.positions.rotate(split_heads(linear(x), self.num_heads), position_ids)
            for linear in (self.query_global, self.key_global)
        )
        everything = attention_weights(q, k, keep[:, None, None], self.positions.bias(q, position_ids, position_ids))
        return everything.where(chosen.mask[:, None, :, None], weights)

    def is_global(self, context: AttentionContext, batch: int) -> Tensor:
        """[B, n], True = a real global token."""
        found = torch.isin(context.k_pos, self.global_positions).expand(batch, context.k_pos.shape[-1])
        if self.global_tokens:
            if context.tokens is None or not len(self.global_ids):
                raise QkvError(
                    f"the ids of global_tokens ({', '.join(self.global_tokens)}) are not known: use learn_ids"
                )
            found = found | torch.isin(context.tokens, self.global_ids)
        return found if context.keep is None else found & context.keep

    def _see_everything(
        self, x: Tensor, chosen: "_Chosen", context: AttentionContext, position_ids: Tensor, dropout: float
    ) -> Tensor:
        """The output [B, H, G, E] of the global tokens, with their own projections."""
        rows, row_pos = chosen.of_rows(x), chosen.of_rows(position_ids)
        q = self.positions.rotate(split_heads(self.query_global(rows), self.num_heads), row_pos)
        k = self.positions.rotate(split_heads(self.key_global(x), self.num_heads), position_ids)
        v = split_heads(self.value_global(x), self.num_heads)
        mask = None if context.keep is None else context.keep[:, None, None]
        return attention_with_positions(self.positions, q, k, v, mask, row_pos, position_ids, dropout)

    def faster_inference(self) -> ForInference | None:
        return LongformerInference(self)


class _Chosen:
    """The True positions of a mask [B, n], gathered and padded to the longest row."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask
        self.count = int(mask.sum(1).amax()) if mask.numel() else 0
        self.index = mask.int().argsort(dim=1, descending=True, stable=True)[:, : self.count]
        self.real = mask.gather(1, self.index)
        """[B, G], False for padding."""

    def of_rows(self, x: Tensor) -> Tensor:
        """[B, n] or [B, n, D] at the chosen positions."""
        return x.gather(1, self.index if x.dim() == 2 else self.index[..., None].expand(-1, -1, x.shape[2]))

    def of_heads(self, x: Tensor) -> Tensor:
        """[B, H, n, E] at the chosen positions."""
        return x.gather(2, self._for_heads(x))

    def put(self, x: Tensor, chosen: Tensor) -> Tensor:
        """`x` [B, H, n, E] with [B, H, G, E] at the chosen positions."""
        mine = chosen.to(x.dtype).where(self.real[:, None, :, None], self.of_heads(x))
        return x.scatter(2, self._for_heads(x), mine)

    def _for_heads(self, x: Tensor) -> Tensor:
        return self.index[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])


class LongformerInference(TruncatedInference):
    """A whole sequence at once: global tokens are for encoders."""

    def __init__(self, module: LongformerAttention) -> None:
        super().__init__(module)
        self.run = module.run

    def extend(self, x: Tensor, past: Tensor | None, block: Block) -> Tensor:
        return self.run(x.view(-1, block.width, x.shape[-1]), block.context, 0.0).view(x.shape)
