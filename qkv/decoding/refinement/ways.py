"""Ways through a graph from its first vertex to its last: along the best links, the best one, one of a given length.

`links` [L, L] are log E, -inf but for later vertices; `said` [L] is log p of each vertex's best token. The first and
the last vertex say nothing, and are no part of a way that is returned.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating[Any]]
WayName = Literal["greedy", "lookahead", "best"]


def greedy_way(said: Numbers, links: Numbers) -> list[int]:
    """v = argmax_v E_uv, again and again."""
    return _along(links.argmax(axis=1).tolist())


def lookahead_way(said: Numbers, links: Numbers) -> list[int]:
    """v = argmax_v E_uv · max_y p_v(y), again and again."""
    return _along((links + _tokens_between(said)).argmax(axis=1).tolist())


def best_way(said: Numbers, links: Numbers) -> list[int]:
    """The way with the highest log p / (tokens + 1), over all lengths."""
    scores, back = _by_length(said, links, len(said) - 2)
    closed = (scores + links[:, -1]) / np.arange(1, len(scores) + 1)[:, None]
    count, last = np.unravel_index(int(closed.argmax()), closed.shape)
    return _traced(back, int(count), int(last))


def way_of_length(said: Numbers, links: Numbers, count: int) -> list[int]:
    """The most probable way with `count` tokens, at most L - 2: D_n(v) = max_u D_{n-1}(u) + log E_uv + log p_v."""
    scores, back = _by_length(said, links, count)
    return _traced(back, count, int((scores[count] + links[:, -1]).argmax()))


def score_of(way: list[int], said: Numbers, links: Numbers) -> tuple[list[float], float]:
    """log p of each token with the link to it, and of the whole way, the link to its end included."""
    stops = [0, *way]
    tokens = (links[stops[:-1], way] + said[way]).tolist()
    return tokens, float(sum(tokens) + links[stops[-1], -1])


WAYS: dict[WayName, Callable[[Numbers, Numbers], list[int]]] = {
    "greedy": greedy_way,
    "lookahead": lookahead_way,
    "best": best_way,
}


def _tokens_between(said: Numbers) -> Numbers:
    """The end is surely the end."""
    between = said.copy()
    between[-1] = 0.0
    return between


def _along(following: list[int]) -> list[int]:
    way: list[int] = []
    at = following[0]
    while at < len(following) - 1:
        way.append(at)
        at = following[at]
    return way


def _by_length(said: Numbers, links: Numbers, most: int) -> tuple[Numbers, list[npt.NDArray[np.intp]]]:
    """D [most + 1, L], and from which vertex each entry but those of the first row came."""
    scores = np.full((most + 1, len(said)), -np.inf)
    scores[0, 0] = 0.0
    back = []
    for count in range(1, most + 1):
        came = scores[count - 1][:, None] + links
        source = came.argmax(axis=0)
        scores[count] = came[source, np.arange(len(said))] + said
        # The last vertex ends a way, and is never passed.
        scores[count, -1] = -np.inf
        back.append(source)
    return scores, back


def _traced(back: list[npt.NDArray[np.intp]], count: int, last: int) -> list[int]:
    way: list[int] = []
    for source in reversed(back[:count]):
        way.append(last)
        last = int(source[last])
    return way[::-1]
