"""The output head: decoded vectors to log-probabilities over the vocabulary."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.smoothing import Smoothing
from qkv.kernels.cross_entropy import linear_cross_entropy


class LinearHead(nn.Module):
    """log softmax(W h). `weight` may be the embedding's own parameter (tied)."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def log_probs(self, decoded: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        logits = F.linear(decoded, self.weight)
        return torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        decoded: Float[Tensor, "N D"],
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        """(smoothed loss, plain negative log-likelihood), weighted sums over the rows; never holds all logits."""
        return linear_cross_entropy(decoded, self.weight, None, targets, smoothing, weights)
