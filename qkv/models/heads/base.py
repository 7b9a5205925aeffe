"""Output heads: from a decoder's states to log-probabilities over the vocabulary. A new head is a new file here."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.functional.losses import AgreementFactors, Smoothing, consistent_cross_entropy, smoothed_cross_entropy
from qkv.text.special import SPECIAL


class HeadContext(NamedTuple):
    """What a head may need besides the states [*batch, D]; None if it does not."""

    src: Tensor | None = None
    """[*batch, S], the ids of the source as `padded_source` gives them: a head knows the padding by its id."""
    attention: Tensor | None = None
    """[*batch, S], the cross-attention: the mean over the layers and heads that the head has chosen."""
    pointed: Tensor | None = None
    """[*batch, S], the head's own scores of the source positions (`Head.point`)."""

    def at(self, index: Any) -> "HeadContext":
        """The context of `states[index]`."""
        return HeadContext(*(None if part is None else part[index] for part in self))


NO_CONTEXT = HeadContext()


def padded_source(src: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """The ids of sources, with pad behind the end of each one, whatever stands there."""
    return src.masked_fill(~src_keep, SPECIAL.pad)


class AttentionChoice(NamedTuple):
    """The cross-attention weights that a head or a search gets are the mean over these."""

    layers: tuple[int, ...] | None = None
    """Decoder layers, counted from 1; None: the last one."""
    heads: tuple[int, ...] | None = None
    """Attention heads of each, counted from 1; None: all."""

    def depths(self, num_layers: int) -> list[int]:
        """The chosen layers of so many, counted from 0."""
        return [num_layers - 1] if self.layers is None else [layer - 1 for layer in self.layers]

    def mean_of_heads(self, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B Q K"]:
        """The mean over the chosen heads of one layer."""
        chosen = weights if self.heads is None else weights[:, [head - 1 for head in self.heads]]
        return chosen.mean(dim=1)

    def mean(self, layers: Sequence[Float[Tensor, "B H Q K"]]) -> Float[Tensor, "B Q K"]:
        """The mean over the chosen heads of the chosen layers."""
        means = [self.mean_of_heads(weights) for weights in layers]
        return means[0] if len(means) == 1 else torch.stack(means).mean(dim=0)


LAST_LAYER = AttentionChoice()


class Head(nn.Module):
    """p(y | state, context) = softmax(scores).

    A head implements `scores`. The losses below are the definition; a head may override them with fused ones.
    """

    needs_source: ClassVar[bool] = False
    """Whether the context must hold the ids of the source."""
    needs_attention: ClassVar[bool] = False
    """Whether the context must hold cross-attention weights."""
    needs_memory: ClassVar[bool] = False
    """Whether the context must hold the head's own scores of the source positions."""
    chosen: AttentionChoice = LAST_LAYER
    """Which cross-attention it gets."""

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
        """Over all tokens but those in `never`, which get -inf; in float32 or wider."""
        logits = self.logits(states, context, never=never)
        return torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

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

    def keys(self, memory: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """What `point` reads of the encoder's states, computed once for a source; only if the head `needs_memory`."""
        raise NotImplementedError

    def point(self, states: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        """The head's own scores of the source positions, of padding too; only if it `needs_memory`."""
        raise NotImplementedError

    def by_columns(self) -> "Head":
        """The head for inference, with its matrices in column-major layout (see `inference.layers`)."""
        return self


class HeadConfig(Config):
    """Base class of the configs of output heads."""

    kind: str

    @property
    def reads_memory(self) -> bool:
        """Whether its head reads the encoder's last states (`Head.needs_memory`)."""
        return False

    @property
    def copies(self) -> bool:
        """Whether its head outputs ids beyond the vocabulary: V + s is the unknown token at source position s."""
        return False

    def problem(self, decoder_layers: int, num_heads: int) -> str | None:
        """Why it does not fit a decoder with so many layers and attention heads; None: it does."""
        return None

    def build(self, embedding: nn.Parameter) -> Head:
        """`embedding` [V, D] is the output embedding, which other parts of the model may share."""
        raise NotImplementedError


heads = Kinds[HeadConfig]("head")
