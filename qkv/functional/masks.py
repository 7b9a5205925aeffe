"""Who may attend to whom: boolean masks, True = may attend.

A mask is built from predicates over absolute positions, and-ed with which keys are real. A window, a
cache (the queries start at position t) or packed sentences therefore need no special case.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from qkv.core.shapes import Bias, Heads, Mask
from qkv.functional.attention import scaled_dot_product

QueryPositions = Int[Tensor, "*#rows Q 1"]
KeyPositions = Int[Tensor, "*#rows 1 K"]
Allowed = Bool[Tensor, "... Q K"]
Predicate = Callable[[Tensor, Tensor], Tensor]
"""(query positions [.., Q, 1], key positions [.., 1, K]) -> may attend [.., Q, K]"""


def causal(q_pos: QueryPositions, k_pos: KeyPositions) -> Allowed:
    """j ≤ i: a position sees itself and what came before."""
    return k_pos <= q_pos


def within(left: int, right: int | None = None) -> Predicate:
    """-left ≤ j - i ≤ right: restricted self-attention (section 4 of the paper); one number holds for both sides."""
    reach = left if right is None else right

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        offset = k_pos - q_pos
        return (-left <= offset) & (offset <= reach)

    return predicate


def dilated(step: int) -> Predicate:
    """j - i is a multiple of step: with `within`, a window that has holes and reaches farther (Beltagy et al. 2020)."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return (k_pos - q_pos) % step == 0

    return predicate


def same_segment(q_segment: Int[Tensor, "B Q"], k_segment: Int[Tensor, "B K"]) -> Predicate:
    """segment(i) = segment(j): sentences packed into one row do not see each other."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return q_segment[..., :, None] == k_segment[..., None, :]

    return predicate


def is_global(positions: Int[Tensor, " G"]) -> Predicate:
    """i ∈ G or j ∈ G: a few positions see everything and are seen by everything (Beltagy et al. 2020)."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return torch.isin(q_pos, positions) | torch.isin(k_pos, positions)

    return predicate


def both(*predicates: Predicate) -> Predicate:
    """Allowed where every one of the predicates allows."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return reduce(torch.logical_and, (allows(q_pos, k_pos) for allows in predicates))

    return predicate


def either(*predicates: Predicate) -> Predicate:
    """Allowed where at least one of the predicates allows."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return reduce(torch.logical_or, (allows(q_pos, k_pos) for allows in predicates))

    return predicate


def build_mask(
    predicate: Predicate | None,
    q_pos: Int[Tensor, " Q"] | Int[Tensor, "#B Q"],
    k_pos: Int[Tensor, " K"] | Int[Tensor, "#B K"],
    keep: Bool[Tensor, "#B K"] | None = None,
) -> Mask | None:
    """allow(i, j) = predicate(i, j) and keep(j), as [B or 1, 1, Q or 1, K]; None when everything is allowed."""
    valid = None if keep is None else keep[:, None, None, :]
    if predicate is None:
        return valid
    allowed = predicate(q_pos[..., :, None], k_pos[..., None, :])
    allowed = allowed[None, None] if allowed.dim() == 2 else allowed[:, None]
    return allowed if valid is None else allowed & valid


class Projected(NamedTuple):
    """Queries, keys and values of one set of projections, [B, H, n, E] each."""

    queries: Heads
    keys: Heads
    values: Heads


def longformer(
    near: Projected,
    far: Projected,
    window: Mask,
    is_global: Bool[Tensor, "B n"],
    keep: Bool[Tensor, "B n"],
    near_bias: Bias | None = None,
    far_bias: Bias | None = None,
) -> Heads:
    """i ∉ G: one softmax over window(i) ∪ G with the projections `near`; i ∈ G: over everything, with `far`.

    G are the real tokens of `is_global`. A union of masks counts each key once.
    """
    chosen, real = (is_global & keep)[:, None], keep[:, None, None]
    from_near, _ = scaled_dot_product(*near, (window | chosen[:, :, None]) & real, near_bias)
    from_far, _ = scaled_dot_product(*far, real, far_bias)
    return from_far.where(chosen[..., None], from_near)
