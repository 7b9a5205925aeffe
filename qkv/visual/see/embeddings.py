"""The embeddings of a sentence's tokens: their nearest neighbours, and the plane in which they differ most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

NEIGHBOURS = 6
FIRST = 5
"""Ids before are special."""


@dataclass(frozen=True)
class EmbeddedToken:
    """A token of one side, its place in the plane, and the tokens with the most similar embeddings."""

    token: str
    x: float
    y: float
    neighbours: list[tuple[str, float]]
    """With the cosine of the angle between both."""


@torch.no_grad()
def embedded_tokens(table: Tensor, ids: Sequence[int], label: Callable[[int], str]) -> list[EmbeddedToken]:
    """The different tokens among `ids`; ids that the table [V, D] does not hold are left out."""
    chosen = [i for i in dict.fromkeys(ids) if FIRST <= i < len(table)]
    if not chosen:
        return []
    vectors = table.float()
    cosines = F.normalize(vectors[chosen], dim=1) @ F.normalize(vectors, dim=1).T
    # Special tokens, and the token itself, are no neighbours.
    cosines[:, :FIRST] = -2
    cosines[torch.arange(len(chosen)), torch.tensor(chosen)] = -2
    best = cosines.topk(max(0, min(NEIGHBOURS, len(table) - FIRST - 1)), dim=1)
    made = []
    for place, (x, y) in enumerate(principal_plane(vectors[chosen]).tolist()):
        near = zip(best.indices[place].tolist(), best.values[place].tolist(), strict=True)
        made.append(EmbeddedToken(label(chosen[place]), x, y, [(label(i), cosine) for i, cosine in near]))
    return made


def principal_plane(vectors: Tensor) -> Tensor:
    """[n, D] to [n, 2]: the coordinates along the two directions in which the vectors vary most (PCA)."""
    centred = (vectors - vectors.mean(dim=0)).double()
    u, s, v = torch.linalg.svd(centred, full_matrices=False)
    # The sign of a direction is arbitrary: its largest component is positive.
    signs = v.gather(1, v.abs().argmax(dim=1, keepdim=True)).sign()[:, 0]
    plane = (u * s * signs)[:, :2]
    return F.pad(plane, (0, 2 - plane.shape[1]))
