"""What an attention may attend to: a predicate over absolute positions, and which keys are real."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from qkv.core.devices import surely_all
from qkv.functional import masks
from qkv.functional.masks import Predicate, build_mask


@dataclass(frozen=True)
class AttentionContext:
    """Positions and masks of one attention, built once for a stack and shared by its layers.

    Positions are absolute, so a parallel pass, one step with a cache and a window need no special case.

    Examples:
        >>> import torch
        >>> from qkv import AttentionContext
        >>> AttentionContext.of(torch.randn(1, 3, 64), causal=True).mask[0, 0].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """

    q_pos: Tensor
    k_pos: Tensor
    predicate: Predicate | None = None
    keep: Tensor | None = None
    """[B, K], True = a real key."""
    q_keep: Tensor | None = None
    """[B, Q], True = a real query; None: the same as `keep`. Only the adaptive stack reads it."""
    tokens: Tensor | None = None
    """[B, K] token ids of the keys. Only attention with global tokens reads them."""
    complete: bool = True
    """Whether these are all keys; False: a source that is still being read. Only cross-attention asks."""
    drawn: Tensor | None = None
    """[B, T] random positions of training (self-attention). Masks do not use them."""

    @classmethod
    def of(cls, x: Tensor, causal: bool = False, keep: Tensor | None = None) -> "AttentionContext":
        """Self-attention over a whole sequence [B, T, D]: `causal`, or to every position that `keep` [B, T] allows."""
        pos = torch.arange(x.shape[1], device=x.device)
        return cls(pos, pos, masks.causal if causal else None, keep)

    @property
    def q_position_ids(self) -> Tensor:
        """Query position ids."""
        return self.q_pos if self.drawn is None else self.drawn

    @property
    def k_position_ids(self) -> Tensor:
        """Key position ids."""
        return self.k_pos if self.drawn is None else self.drawn

    @property
    def mask(self) -> Tensor | None:
        """[B|1, 1, Q, K], True = may attend; None if every query may attend to every key."""
        # The compiler fuses it with what reads it, and cannot see through a cached property.
        return self._built() if torch.compiler.is_compiling() else self._mask

    @cached_property
    def _mask(self) -> Tensor | None:
        return self._built()

    def _built(self) -> Tensor | None:
        if self.predicate is None and (self.keep is None or surely_all(self.keep)):
            return None
        return build_mask(self.predicate, self.q_pos, self.k_pos, self.keep)
