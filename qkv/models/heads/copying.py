"""What heads that copy from the source have in common."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.copying.mixture import log_sums_by_token
from qkv.functional.losses import AgreementFactors, Smoothing
from qkv.kernels.labels import label_log_probs
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
        """As in `Head`; without smoothing, only the probabilities of the targets are computed."""
        if smoothing.is_plain:
            nll = -(self.target_log_probs(states, context, targets) * weights).sum()
            return nll, nll.detach()
        return super().loss(states, context, targets, weights, self._widened(smoothing, context))

    def target_log_probs(
        self, states: Float[Tensor, "N D"], context: HeadContext, targets: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        """`log_probs` of the targets alone, without the columns of all other tokens."""
        raise NotImplementedError

    def generated_target(
        self, states: Float[Tensor, "N D"], targets: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """log softmax(W h) of the targets, about -inf for an id beyond the vocabulary; and log Σ_v exp(w_v·h)."""
        known = targets.clamp_max(len(self.weight) - 1)
        background = self.weight.new_zeros(len(self.weight))
        log_probs = label_log_probs(states, self.weight, known[:, None], background)[0][:, 0]
        normaliser = (states.to(self.weight.dtype) * self.weight[known]).sum(dim=-1) - log_probs
        lowest = torch.finfo(log_probs.dtype).min / 4
        return log_probs.masked_fill(targets >= len(self.weight), lowest), normaliser

    def copied_target(
        self, scores: Float[Tensor, "N S"], src: Int[Tensor, "N S"], targets: Int[Tensor, " N"]
    ) -> Tensor:
        """log Σ_{s: x_s = y} exp(scores_s) [N], about -inf for a target that the source does not have."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores.masked_fill(src != targets[:, None], torch.finfo(scores.dtype).min / 4).logsumexp(dim=-1)

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
