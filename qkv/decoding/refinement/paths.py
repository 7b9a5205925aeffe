"""Paths over a CTC canvas: what they collapse to, the best outputs, the best one of a given length.

A canvas is given as `steps`: for each position log p of the tokens that are considered, the blank among them.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Steps = Sequence[Mapping[int, float]]


def runs(path: Sequence[int], blank: int) -> list[tuple[int, int]]:
    """(start, stop) of each run of equal tokens that is not blank: what is left when the path collapses."""
    found: list[tuple[int, int]] = []
    for at, token in enumerate(path):
        if token == blank:
            continue
        if at and path[at - 1] == token:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


class _Ends(NamedTuple):
    """log p of the paths to a prefix that end with a blank, and of those that end with its last token."""

    blank: float = -math.inf
    token: float = -math.inf

    @property
    def total(self) -> float:
        return _add(self.blank, self.token)


def prefix_beam_search(steps: Steps, blank: int, size: int) -> list[tuple[tuple[int, ...], float]]:
    """The `size` most probable outputs and log P of each, best first.

    With all tokens in every step and a beam that is wide enough, log P is exact.
    """
    beam: dict[tuple[int, ...], _Ends] = {(): _Ends(blank=0.0)}
    for step in steps:
        after: defaultdict[tuple[int, ...], _Ends] = defaultdict(_Ends)
        for prefix, ends in beam.items():
            for token, log_p in step.items():
                _extend(after, prefix, ends, token, log_p, blank)
        possible = [(prefix, ends) for prefix, ends in after.items() if ends.total > -math.inf]
        beam = dict(sorted(possible, key=lambda item: (-item[1].total, item[0]))[:size])
    return [(prefix, ends.total) for prefix, ends in beam.items()]


def _extend(
    after: defaultdict[tuple[int, ...], _Ends],
    prefix: tuple[int, ...],
    ends: _Ends,
    token: int,
    log_p: float,
    blank: int,
) -> None:
    if token == blank:
        after[prefix] = after[prefix]._replace(blank=_add(after[prefix].blank, ends.total + log_p))
        return
    longer = (*prefix, token)
    if prefix and prefix[-1] == token:
        # The same token again is still the last one; only after a blank it is a new one.
        after[prefix] = after[prefix]._replace(token=_add(after[prefix].token, ends.token + log_p))
        after[longer] = after[longer]._replace(token=_add(after[longer].token, ends.blank + log_p))
    else:
        after[longer] = after[longer]._replace(token=_add(after[longer].token, ends.total + log_p))


def _add(a: float, b: float) -> float:
    """log(e^a + e^b)"""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def path_of_length(steps: Steps, blank: int, count: int) -> list[int]:
    """The most probable path that collapses to `count` tokens, or to as many of them as are possible.

    D_t(n, last) is the best score of t positions with n tokens so far, the t-th of which says `last`. A token counts
    as new unless the position before says the same.
    """
    best: dict[tuple[int, int], float] = {(0, blank): 0.0}
    back: list[dict[tuple[int, int], tuple[int, int]]] = []
    for step in steps:
        now: dict[tuple[int, int], float] = {}
        came: dict[tuple[int, int], tuple[int, int]] = {}
        for (tokens, last), score in best.items():
            for token, log_p in step.items():
                key = (tokens + (token not in (blank, last)), token)
                if key[0] <= count and (key not in now or score + log_p > now[key]):
                    now[key], came[key] = score + log_p, (tokens, last)
        best = now
        back.append(came)
    most = max(tokens for tokens, _ in best)
    key = max((key for key in best if key[0] == most), key=best.__getitem__)
    path: list[int] = []
    for came in reversed(back):
        path.append(key[1])
        key = came[key]
    return path[::-1]
