"""How different the heads of a side are: within a layer, between layers, and with depth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.functional.heads.measures import row_entropy, smoothed_rows
from qkv.visual.heads.weights import SideWeights

PERMUTATIONS = 9_999
SEED = 12345
ROWS_AT_ONCE = 2048
"""Queries whose rows are compared at once."""

Numbers = NDArray[np.float64]


class DistanceSums:
    """Sums of the Jensen-Shannon divergences between N heads over the real queries seen so far."""

    def __init__(self, heads: int) -> None:
        self.total = torch.zeros(heads, heads, dtype=torch.float64)
        self.queries = 0

    def add(self, seen: SideWeights) -> None:
        """Add the weights of a batch."""
        real = seen.queries
        rows, visible = seen.weights.transpose(1, 2)[real], seen.visible[real]
        for part, keys in zip(rows.split(ROWS_AT_ONCE), visible.split(ROWS_AT_ONCE), strict=True):
            self.total += divergences(smoothed_rows(part, keys[:, None]))
        self.queries += len(rows)

    def mean(self) -> Numbers:
        """[N, N], nats a query; at most ln 2."""
        result: Numbers = (self.total / max(self.queries, 1)).numpy()
        return result


def divergences(rows: Tensor) -> Tensor:
    """[N, N]: Σ over queries of the Jensen-Shannon divergence of each two heads; `rows` is [queries, N, K].

    H(m) - ½ H(p) - ½ H(q) as `jensen_shannon`, with each H(p) computed once.
    """
    entropy = row_entropy(rows)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for place in range(rows.shape[1] - 1):
        mixed = row_entropy((rows[:, place, None] + rows[:, place + 1 :]) / 2)
        apart = mixed - (entropy[:, place, None] + entropy[:, place + 1 :]) / 2
        total[place, place + 1 :] = apart.clamp_min(0).double().sum(dim=0)
    return total + total.T


@dataclass(frozen=True)
class LayerDistances:
    """Distances between heads within and between layers; p-values by permutation of heads between layers."""

    layers: list[int]
    within: list[float]
    """The mean distance of two heads of each layer."""
    same_layer: float
    """The mean over all pairs of heads of one layer."""
    other_layers: float
    """The mean over all pairs of heads of different layers."""
    p_alike: float
    """How often chance puts heads that are at least so much alike into one layer."""
    slope: float
    """Change of `within` from one layer to the next, by least squares."""
    p_depth: float
    """How often chance gives a slope at least so steep, up or down."""


def layer_distances(
    distances: Numbers, layer_of: Sequence[int], permutations: int = PERMUTATIONS
) -> LayerDistances | None:
    """Compare layers by the distances [N, N] of their heads; None if fewer than two layers have two heads."""
    layers, sizes = np.unique(np.asarray(layer_of), return_counts=True)
    usable = layers[sizes > 1]
    if len(usable) < 2:
        return None
    member = np.asarray([[own == layer for own in layer_of] for layer in usable], dtype=np.float64)
    alike, slope, within = _statistics(distances, member)
    same = np.equal.outer(layer_of, layer_of)
    different = distances[~same].mean()
    pairs = same & ~np.eye(len(distances), dtype=bool)
    random = np.random.default_rng(SEED)
    drawn = np.asarray([_drawn(distances, member, random) for _ in range(permutations)])
    # What was found counts as one of the draws.
    p_alike = (np.sum(drawn[:, 0] <= alike + 1e-12) + 1) / (permutations + 1)
    p_depth = (np.sum(np.abs(drawn[:, 1]) >= abs(slope) - 1e-12) + 1) / (permutations + 1)
    return LayerDistances(
        layers=[int(layer) for layer in usable],
        within=[float(value) for value in within],
        same_layer=float(distances[pairs].mean()),
        other_layers=float(different),
        p_alike=float(p_alike),
        slope=slope,
        p_depth=float(p_depth),
    )


def _drawn(distances: Numbers, member: Numbers, random: np.random.Generator) -> tuple[float, float]:
    order = random.permutation(len(distances))
    alike, slope, _ = _statistics(distances, member[:, order])
    return alike, slope


def _statistics(distances: Numbers, member: Numbers) -> tuple[float, float, Numbers]:
    """The mean distance within layers over all pairs, its slope against depth, and the mean within each layer.

    `member` [L, N] is 1 where a head is of a layer.
    """
    sums, sizes = np.einsum("ln,nm,lm->l", member, distances, member), member.sum(axis=1)
    pairs = sizes * (sizes - 1)
    within = sums / pairs
    depth = np.arange(len(within)) - (len(within) - 1) / 2
    return float(sums.sum() / pairs.sum()), float(depth @ within / (depth @ depth)), within
