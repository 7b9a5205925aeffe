"""The directed acyclic graph of DA-Transformer (Huang et al. 2022): a text is a path from the first vertex to the last.

Every vertex i has a distribution p_i over tokens and a distribution E_i over the later vertices. A path
0 = a_0 < a_1 < ... < a_U < a_{U+1} = last emits one token at each vertex between its ends:

    P(Y) = Σ over paths A of Π_{i=0..U} E[a_i, a_{i+1}] · Π_{i=1..U} p_{a_i}(y_i)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def transitions(scores: Float[Tensor, "vertices vertices"]) -> Float[Tensor, "vertices vertices"]:
    """log E: row i is the softmax over the vertices after i; -inf elsewhere. The last row has none."""
    rows = [
        torch.cat([torch.full_like(row[: i + 1], -torch.inf), row[i + 1 :].log_softmax(dim=0)])
        for i, row in enumerate(scores)
    ]
    return torch.stack(rows)


def dag_log_prob(
    log_probs: Float[Tensor, "vertices V"], links: Float[Tensor, "vertices vertices"], target: Sequence[int]
) -> Float[Tensor, ""]:
    """log P(Y) by f_t(v) = p_v(y_t) Σ_{u<v} f_{t-1}(u) E_uv, in log space; -inf if the target needs more vertices."""
    last = len(links) - 1
    said = {0: links.new_zeros(())}
    for token in target:
        came = {v: [score + links[u, v] for u, score in said.items() if u < v] for v in range(1, last)}
        said = {v: torch.stack(paths).logsumexp(dim=0) + log_probs[v, token] for v, paths in came.items() if paths}
    ends = [score + links[u, last] for u, score in said.items()]
    return torch.stack(ends).logsumexp(dim=0) if ends else links.new_tensor(-torch.inf)


def dag_best(
    log_probs: Float[Tensor, "vertices V"], links: Float[Tensor, "vertices vertices"], target: Sequence[int]
) -> list[int]:
    """The vertices a_1 ... a_U of the most probable path that emits Y, by the same recursion with max; first of ties.

    The target must fit: |Y| ≤ vertices - 2.
    """
    last = len(links) - 1
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for token in target:
        came = {v: [(s + float(links[u, v]), path) for u, (s, path) in best.items() if u < v] for v in range(1, last)}
        chosen = {v: max(paths, key=lambda one: one[0]) for v, paths in came.items() if paths}
        best = {v: (score + float(log_probs[v, token]), [*path, v]) for v, (score, path) in chosen.items()}
    return max((score + float(links[u, last]), path) for u, (score, path) in best.items())[1]
