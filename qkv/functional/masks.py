"""Attention masks: boolean, True = may attend.

A mask is built from predicates over absolute positions, and-ed with key validity. A window, a
cache (queries start at position t) or packed sentences therefore need no special case.
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
    """j ≤ i: a position attends to itself and to earlier positions."""
    return k_pos <= q_pos


def within(left: int, right: int | None = None) -> Predicate:
    """-left ≤ j - i ≤ right: restricted self-attention (section 4 of the paper); one number applies to both sides."""
    reach = left if right is None else right

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        offset = k_pos - q_pos
        return (-left <= offset) & (offset <= reach)

    return predicate


def dilated(step: int) -> Predicate:
    """j - i is a multiple of step: with `within`, a dilated window (Beltagy et al. 2020)."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return (k_pos - q_pos) % step == 0

    return predicate


def reading(k: int) -> Predicate:
    """j < i + k: output i has read k source tokens for the first output and one for each that followed (wait-k)."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return k_pos < q_pos + k

    return predicate


def same_segment(q_segment: Int[Tensor, "B Q"], k_segment: Int[Tensor, "B K"]) -> Predicate:
    """segment(i) = segment(j): sentences packed into one row do not attend to each other."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return q_segment[..., :, None] == k_segment[..., None, :]

    return predicate


def is_global(positions: Int[Tensor, " G"]) -> Predicate:
    """i ∈ G or j ∈ G: global positions attend to all and are attended to by all (Beltagy et al. 2020)."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return torch.isin(q_pos, positions) | torch.isin(k_pos, positions)

    return predicate


def both(*predicates: Predicate) -> Predicate:
    """The intersection of the predicates."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return reduce(torch.logical_and, (allows(q_pos, k_pos) for allows in predicates))

    return predicate


def either(*predicates: Predicate) -> Predicate:
    """The union of the predicates."""

    def predicate(q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return reduce(torch.logical_or, (allows(q_pos, k_pos) for allows in predicates))

    return predicate


def build_mask(
    predicate: Predicate | None,
    q_pos: Int[Tensor, " Q"] | Int[Tensor, "#B Q"],
    k_pos: Int[Tensor, " K"] | Int[Tensor, "#B K"],
    keep: Bool[Tensor, "#B K"] | None = None,
) -> Mask | None:
    """allow(i, j) = predicate(i, j) and keep(j), as [B or 1, 1, Q or 1, K]; None if everything is allowed."""
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
