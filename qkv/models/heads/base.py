"""Output heads: from a decoder's states to log-probabilities over the vocabulary. A new head is a new file here."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.functional.losses import AgreementFactors, Smoothing, consistent_cross_entropy, smoothed_cross_entropy


class HeadContext(NamedTuple):
    """What a head may need besides the states [*batch, D]; None if it does not."""

    src: Tensor | None = None
    """[*batch, S], the ids of the source, padding included."""
    attention: Tensor | None = None
    """[*batch, S], the cross-attention of the last layer, the mean over its heads."""

    def at(self, index: Any) -> "HeadContext":
        """The context of `states[index]`."""
        return HeadContext(*(None if part is None else part[index] for part in self))


NO_CONTEXT = HeadContext()


class Head(nn.Module):
    """p(y | state, context) = softmax(scores).

    A head implements `scores`. The losses below are the definition; a head may override them with fused ones.
    """

    needs_source: ClassVar[bool] = False
    """Whether the context must hold the ids of the source."""
    needs_attention: ClassVar[bool] = False
    """Whether the context must hold cross-attention weights."""

    def scores(self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT) -> Float[Tensor, "*batch V"]:
        """Unnormalised log-probabilities; those of a mixture are the logarithm of its probabilities.

        A new tensor at each call: `logits` overwrites the scores of some tokens.
        """
        raise NotImplementedError

    def logits(
        self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT, *, never: Sequence[int] = ()
    ) -> Float[Tensor, "*batch V"]:
        """`scores` in single precision at least; tokens in `never` get -inf."""
        logits = self.scores(states, context)
        for token in never:
            logits.select(-1, token).fill_(-torch.inf)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def log_probs(
        self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT, *, never: Sequence[int] = ()
    ) -> Float[Tensor, "*batch V"]:
        """Over all tokens but those in `never`, which get -inf."""
        return torch.log_softmax(self.logits(states, context, never=never), dim=-1)

    def loss(
        self,
        states: Float[Tensor, "N D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
    ) -> tuple[Tensor, Tensor]:
        """(smoothed loss, plain negative log-likelihood), weighted sums over the rows."""
        return smoothed_cross_entropy(self.log_probs(states, context), targets, smoothing, weights)

    def consistent_loss(
        self,
        states: Float[Tensor, "N 2 D"],
        context: HeadContext,
        targets: Int[Tensor, " N"],
        weights: Float[Tensor, " N"],
        smoothing: Smoothing,
        agreement: AgreementFactors,
    ) -> tuple[Tensor, Tensor]:
        """The same for two passes of a consistency loss; the second value is that of the first pass."""
        return consistent_cross_entropy(self.log_probs(states, context), targets, smoothing, agreement, weights)

    def for_few_rows(self) -> "Head":
        """A copy for inference, with the weight layout for products with a few rows."""
        return self


class HeadConfig(Config):
    """Base class of the configs of output heads."""

    kind: str

    def build(self, embedding: nn.Parameter) -> Head:
        """`embedding` [V, D] is the output embedding, which other parts of the model may share."""
        raise NotImplementedError


heads = Kinds[HeadConfig]("head")
