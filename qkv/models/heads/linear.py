"""The output head: decoded vectors to log-probabilities over the vocabulary."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.losses import AgreementFactors, Smoothing
from qkv.kernels.cross_entropy import linear_consistent_cross_entropy, linear_cross_entropy


class LinearHead(nn.Module):
    """log softmax(W h). `weight` may be the embedding's own parameter (tied)."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def log_probs(self, decoded: Float[Tensor, "*batch D"], never: Sequence[int] = ()) -> Float[Tensor, "*batch V"]:
        """Over all tokens but those in `never`, which get -inf."""
        return torch.log_softmax(self.logits(decoded, never), dim=-1)

    def logits(self, decoded: Float[Tensor, "*batch D"], never: Sequence[int] = ()) -> Float[Tensor, "*batch V"]:
        """The same before it is normalised, in single precision at least."""
        logits = F.linear(decoded, self.weight)
        for token in never:
            logits.select(-1, token).fill_(-torch.inf)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        decoded: Float[Tensor, "N D"],
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        """(smoothed loss, plain negative log-likelihood), weighted sums over the rows; never holds all logits."""
        return linear_cross_entropy(decoded, self.weight, None, targets, smoothing, weights)

    def consistent_loss(
        self,
        decoded: Float[Tensor, "N 2 D"],
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
        agreement: AgreementFactors,
    ) -> tuple[Tensor, Tensor]:
        """The same for two passes that are to agree; the second number is the first pass's."""
        return linear_consistent_cross_entropy(decoded, self.weight, None, targets, smoothing, agreement, weights)
