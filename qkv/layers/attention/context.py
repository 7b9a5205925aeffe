"""What the queries of one attention may see: a predicate over absolute positions, and which keys are real."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from qkv.functional.masks import Predicate, build_mask


@dataclass(frozen=True)
class View:
    """Built once for a stack and read by all of its layers.

    Positions are absolute, so a parallel pass, one step with a cache and a window need no special case.
    """

    q_pos: Tensor
    k_pos: Tensor
    predicate: Predicate | None = None
    keep: Tensor | None = None
    """[B, K], True = a real key."""
    q_keep: Tensor | None = None
    """[B, Q], True = a real query; None: as `keep` says. Only a stack whose depth adapts asks."""
    tokens: Tensor | None = None
    """[B, K] ids of the keys; only attention with tokens that are seen from everywhere asks."""
    drawn: Tensor | None = None
    """[B, T] random positions of training (self-attention). The position scheme is told these, masks are not."""

    @property
    def q_told(self) -> Tensor:
        """Where the position scheme is told that the queries stand."""
        return self.q_pos if self.drawn is None else self.drawn

    @property
    def k_told(self) -> Tensor:
        """Where the position scheme is told that the keys stand."""
        return self.k_pos if self.drawn is None else self.drawn

    @cached_property
    def mask(self) -> Tensor | None:
        """[B|1, 1, Q, K], True = may attend; None when every query may see every key."""
        if self.predicate is None and (self.keep is None or bool(self.keep.all())):
            return None
        return build_mask(self.predicate, self.q_pos, self.k_pos, self.keep)
