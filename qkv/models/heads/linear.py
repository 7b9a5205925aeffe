"""The paper's output head: one linear map, then softmax."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.errors import UsageError
from qkv.functional.losses import AgreementFactors, Smoothing
from qkv.kernels.cross_entropy import linear_consistent_cross_entropy, linear_cross_entropy
from qkv.kernels.labels import label_and_best_log_probs, label_log_probs, label_logits
from qkv.models.heads.base import NO_CONTEXT, Head, HeadConfig, HeadContext, heads


@heads.register
class LinearHeadConfig(HeadConfig):
    """softmax(W h), as in the paper."""

    kind: Literal["linear"] = "linear"

    def build(self, embedding: nn.Parameter) -> "LinearHead":
        return LinearHead(embedding)


def output_matrix(head: Head) -> nn.Parameter:
    """W [V, D] of a linear head; raises UsageError for another kind."""
    if not isinstance(head, LinearHead):
        raise UsageError(f"only the head linear has one output matrix, not {type(head).__name__}; use head linear")
    return head.weight


class LinearHead(Head):
    """log softmax(W h). `weight` may be the embedding's own parameter (tied)."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def scores(self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT) -> Float[Tensor, "*batch V"]:
        return F.linear(states, self.weight)

    def loss(
        self,
        states: Float[Tensor, "N D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        """As in `Head`, without materialising all logits."""
        return linear_cross_entropy(states, self.weight, None, targets, smoothing, weights)

    def consistent_loss(
        self,
        states: Float[Tensor, "N 2 D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
        agreement: AgreementFactors,
    ) -> tuple[Tensor, Tensor]:
        """As in `Head`, without materialising all logits."""
        return linear_consistent_cross_entropy(states, self.weight, None, targets, smoothing, agreement, weights)

    @property
    def vocab_size(self) -> int:
        """V"""
        return len(self.weight)

    def label_log_probs(self, states: Tensor, labels: Tensor, background: Tensor) -> tuple[Tensor, Tensor]:
        """See `kernels.labels.label_log_probs`."""
        return label_log_probs(states, self.weight, labels, background)

    def label_logits(self, states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """See `kernels.labels.label_logits`."""
        return label_logits(states, self.weight, labels)

    def label_and_best_log_probs(self, states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """See `kernels.labels.label_and_best_log_probs`."""
        return label_and_best_log_probs(states, self.weight, labels)

    def by_columns(self) -> "LinearHead":
        columns = self.weight.detach().t().contiguous().t()
        return LinearHead(nn.Parameter(columns, requires_grad=False))


class BiasedHead(LinearHead):
    """log softmax(W h + b)"""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__(weight)
        self.bias = bias

    def scores(self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT) -> Float[Tensor, "*batch V"]:
        return F.linear(states, self.weight, self.bias)

    def loss(
        self,
        states: Float[Tensor, "N D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        """As in `Head`, without materialising all logits."""
        return linear_cross_entropy(states, self.weight, self.bias, targets, smoothing, weights)

    consistent_loss = Head.consistent_loss

    def by_columns(self) -> "LinearHead":
        return self


class PartialHead(LinearHead):
    """Without some tokens: their probability is 0."""

    def __init__(self, weight: nn.Parameter, absent: Sequence[int]) -> None:
        super().__init__(weight)
        self.absent = list(absent)

    def scores(self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT) -> Float[Tensor, "*batch V"]:
        scores = super().scores(states, context)
        return scores.index_fill(-1, torch.tensor(self.absent, device=scores.device), -torch.inf)

    loss = Head.loss
    consistent_loss = Head.consistent_loss

    def by_columns(self) -> "LinearHead":
        return self
