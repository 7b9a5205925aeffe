"""Measures of attention heads: how sharp one is, how far two are apart, and a map of many."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FLOOR = 0.001
"""The share of a row that is spread evenly before rows are compared, as Clark et al. (2019) do."""


def row_entropy(weights: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """H(p) = -Σ_j p_j ln p_j, in nats; 0 ln 0 = 0."""
    return -torch.xlogy(weights, weights).sum(dim=-1)


def smoothed_rows(weights: Float[Tensor, "*batch K"], visible: Bool[Tensor, "*rows K"]) -> Float[Tensor, "*batch K"]:
    """p_j ← 0.999 p_j + 0.001 / n over the n keys that a query may attend to; other keys keep weight 0."""
    count = visible.sum(dim=-1, keepdim=True).clamp_min(1)
    return (1 - FLOOR) * weights + FLOOR * visible.to(weights.dtype) / count


def jensen_shannon(p: Float[Tensor, "*batch K"], q: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
    """JS(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m) = H(m) - ½ H(p) - ½ H(q) with m = ½ (p + q), in nats: at most ln 2."""
    mixed = row_entropy((p + q) / 2)
    return (mixed - (row_entropy(p) + row_entropy(q)) / 2).clamp_min(0)


def classical_mds(distances: Float[Tensor, "N N"], dimensions: int = 2) -> Float[Tensor, "N dimensions"]:
    """Points whose distances are those given, as nearly as so few dimensions allow (Torgerson 1952).

    B = -½ J D² J with J = I - 1/N; the points are the leading eigenvectors of B times the roots of their eigenvalues.
    The sign of each axis makes its largest coordinate positive.
    """
    size = len(distances)
    centring = torch.eye(size, dtype=distances.dtype) - 1 / size
    values, vectors = torch.linalg.eigh(-0.5 * centring @ distances.square() @ centring)
    values, vectors = values.flip(0)[:dimensions].clamp_min(0), vectors.flip(1)[:, :dimensions]
    points = vectors * values.sqrt()
    largest = points.gather(0, points.abs().argmax(dim=0, keepdim=True))
    points = points * torch.where(largest < 0, -1.0, 1.0).to(points.dtype)
    return torch.nn.functional.pad(points, (0, dimensions - points.shape[1]))
