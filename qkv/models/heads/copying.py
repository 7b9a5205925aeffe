"""What heads that copy from the source have in common."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.copying.mixture import log_sums_by_token
from qkv.functional.losses import AgreementFactors, Smoothing
from qkv.models.heads.base import Head, HeadConfig, HeadContext
from qkv.text.special import SPECIAL


class CopyHeadConfig(HeadConfig):
    """Base class of the configs of heads that copy."""

    @property
    def copies(self) -> bool:
        return True


class CopyHead(Head):
    """Adds to the vocabulary's scores what the tokens of the source get: V + S columns.

    Ids from V on stand for unknown tokens of the source: V + s is the one at position s.
    """

    needs_source = True

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def copy_scores(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        """The score of copying each source position, of padding too."""
        raise NotImplementedError

    def copy_log_probs(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        """log p(the next token is a copy of source position s); of padding too, where it means nothing."""
        raise NotImplementedError

    def generated(self, states: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        """W h, in single precision at least."""
        logits = F.linear(states, self.weight)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def copied(self, states: Float[Tensor, "*batch D"], context: HeadContext) -> Float[Tensor, "*batch columns"]:
        """The scores of the source positions, summed for each token."""
        assert context.src is not None
        scores = self.copy_scores(states, context)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        columns = len(self.weight) + context.src.shape[-1]
        return log_sums_by_token(scores, context.src, context.src != SPECIAL.pad, columns)

    def loss(
        self,
        states: Float[Tensor, "N D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        return super().loss(states, context, targets, weights, self._widened(smoothing, context))

    def consistent_loss(
        self,
        states: Float[Tensor, "N 2 D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
        agreement: AgreementFactors,
    ) -> tuple[Tensor, Tensor]:
        return super().consistent_loss(states, context, targets, weights, self._widened(smoothing, context), agreement)

    def _widened(self, smoothing: Smoothing, context: HeadContext) -> Smoothing:
        """Smoothing moves no mass to ids beyond the vocabulary."""
        assert context.src is not None
        return replace(smoothing, background=F.pad(smoothing.background, (0, context.src.shape[-1])))
