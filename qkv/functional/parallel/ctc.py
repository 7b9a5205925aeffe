"""Connectionist temporal classification (Graves et al. 2006): a path of tokens and blanks stands for a shorter text.

A path collapses: repeated tokens are merged, then blanks are removed. P(Y) sums over all paths that collapse to Y.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor


def collapse(path: Sequence[int], blank: int) -> list[int]:
    """a a - a b b -> a a b: merge repeated tokens, then remove blanks."""
    merged = [token for at, token in enumerate(path) if at == 0 or token != path[at - 1]]
    return [token for token in merged if token != blank]


def fewest_positions(target: Sequence[int]) -> int:
    """The length of the shortest path to Y: |Y| + the number of repetitions, which need a blank in between."""
    return len(target) + sum(left == right for left, right in pairwise(target))


def ctc_log_prob(log_probs: Float[Tensor, "T V"], target: Sequence[int], blank: int) -> Float[Tensor, ""]:
    """log P(Y) by the forward recursion over the states - y1 - y2 - ... -, in log space; -inf if no path fits.

    α_t(s) = (α_{t-1}(s) + α_{t-1}(s-1) + α_{t-1}(s-2) if it may be skipped) p_t(state s). Only a blank between two
    different tokens may be skipped.
    """
    states = _states(target, blank)
    alpha = {s: log_probs[0, state] for s, state in enumerate(states[:2])}
    for now in log_probs[1:]:
        came = {s: [alpha[p] for p in _previous(states, s, blank) if p in alpha] for s in range(len(states))}
        alpha = {s: torch.stack(ways).logsumexp(dim=0) + now[states[s]] for s, ways in came.items() if ways}
    ends = [alpha[s] for s in range(len(states))[-2:] if s in alpha]
    return torch.stack(ends).logsumexp(dim=0) if ends else log_probs.new_tensor(-torch.inf)


def best_path(log_probs: Float[Tensor, "T V"], target: Sequence[int], blank: int) -> list[int]:
    """The most probable of the paths that collapse to Y, by the same recursion with max; ties go to the earlier state.

    The target must fit: `fewest_positions(target) <= T`.
    """
    states = _states(target, blank)
    score = {s: float(log_probs[0, state]) for s, state in enumerate(states[:2])}
    back: list[dict[int, int]] = []
    for now in log_probs[1:]:
        ways = {s: [p for p in _previous(states, s, blank) if p in score] for s in range(len(states))}
        came = {s: max(sorted(own), key=score.__getitem__) for s, own in ways.items() if own}
        score = {s: score[p] + float(now[states[s]]) for s, p in came.items()}
        back.append(came)
    walk = [max((s for s in range(len(states))[-2:] if s in score), key=score.__getitem__)]
    for came in reversed(back):
        walk.append(came[walk[-1]])
    return [states[s] for s in reversed(walk)]


def _states(target: Sequence[int], blank: int) -> list[int]:
    """- y1 - y2 - ... yU -"""
    return [blank, *(state for token in target for state in (token, blank))]


def _previous(states: list[int], s: int, blank: int) -> list[int]:
    """The states that may precede state `s` on a path."""
    skips = s >= 2 and states[s] not in (blank, states[s - 2])
    return [p for p in (s, s - 1, s - 2 if skips else -1) if p >= 0]
