"""Scheduled sampling in two parallel passes (Mihaylova and Martins 2019), and the registry of the kinds.

The first pass reads gold tokens and predicts every target token; the second one reads some of these predictions in
place of the gold tokens, and learns the gold labels. No gradient flows through the first pass.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.batch import Batch
from qkv.functional.noise import choose, draw_tokens, predicting
from qkv.models.base import Model
from qkv.objectives.scheduled_sampling.gold_rates import AnyGoldRate, GoldRate, LinearGoldConfig
from qkv.text.special import SPECIAL, SpecialIds


@dataclass(frozen=True, kw_only=True)
class ScheduledSampling:
    """Replaces gold tokens in the decoder's input by the model's own predictions.

    Never replaced are the start symbol and padding, and no special token but <unk> is predicted: a search would not go
    on after the end symbol either.

    Args:
        gold: The probability to keep a gold token.
        special: Ids of the special tokens.
    """

    gold: GoldRate
    special: SpecialIds = SPECIAL

    @contextmanager
    def mixing(self, model: Model, batch: Batch, update: int) -> Iterator[Tensor]:
        """The decoder's input [B, T] for the second pass, which takes place inside; `update` counts from 1.

        While all tokens are gold, there is no first pass and no random number is drawn.
        """
        rate, special = 1 - self.gold(update), self.special
        if rate <= 0:
            yield batch.tgt_in
            return
        eligible = (batch.tgt_in != special.pad) & (batch.tgt_in != special.bos)
        chosen = choose(eligible, rate)
        at = predicting(chosen)
        with torch.no_grad():
            states, context = model(batch)
            never = (special.pad, special.bos, special.eos, special.mask)
            logits = model.head.logits(states[at], context.at(at), never=never)
        # A head may also know tokens that the decoder cannot read.
        readable = logits[:, : len(model.tgt_embedding.weight)]
        with self.replaced(model, batch.tgt_in, chosen, readable) as tgt_in:
            yield tgt_in

    def replaced(self, model: Model, tgt_in: Tensor, chosen: Tensor, logits: Tensor) -> AbstractContextManager[Tensor]:
        """`tgt_in` with the `chosen` positions replaced, by `logits` [N, V] of the tokens that stand there."""
        raise NotImplementedError


class ScheduledSamplingConfig(Config):
    """Some gold tokens in the decoder's input are replaced by the model's own predictions, from a first pass."""

    kind: str
    gold: AnyGoldRate = LinearGoldConfig()
    """The probability to keep a gold token, over the updates of the run."""

    def build(self, special: SpecialIds) -> ScheduledSampling:
        raise NotImplementedError


samplings = Kinds[ScheduledSamplingConfig]("scheduled sampling")
AnyScheduledSampling = Annotated[ScheduledSamplingConfig, samplings]


@samplings.register
class ArgmaxConfig(ScheduledSamplingConfig):
    """The prediction is the most probable token."""

    kind: Literal["argmax"] = "argmax"

    def build(self, special: SpecialIds) -> "ArgmaxSampling":
        return ArgmaxSampling(gold=self.gold.build(), special=special)


class ArgmaxSampling(ScheduledSampling):
    """The prediction is the most probable token."""

    def replaced(self, model: Model, tgt_in: Tensor, chosen: Tensor, logits: Tensor) -> AbstractContextManager[Tensor]:
        return nullcontext(tgt_in.masked_scatter(chosen, logits.argmax(dim=-1)))


@dataclass(frozen=True, kw_only=True)
class Distribution(ScheduledSampling):
    """The prediction comes from softmax(logits / temperature) of the `top_k` most probable tokens; 0: all."""

    temperature: float = 1.0
    top_k: int = 0

    def probabilities(self, logits: Tensor) -> Tensor:
        return (most_probable(logits, self.top_k) / self.temperature).softmax(dim=-1)


class DistributionConfig(ScheduledSamplingConfig):
    """The prediction comes from the model's distribution."""

    temperature: float = Field(default=1.0, gt=0)
    """Below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int = Field(default=0, ge=0)
    """Only the k most probable tokens; 0: all."""


@samplings.register
class SampleTokenConfig(DistributionConfig):
    """The prediction is drawn from the model's distribution."""

    kind: Literal["sample"] = "sample"

    def build(self, special: SpecialIds) -> "SampleToken":
        return SampleToken(gold=self.gold.build(), special=special, temperature=self.temperature, top_k=self.top_k)


class SampleToken(Distribution):
    """The prediction is drawn from the model's distribution."""

    def replaced(self, model: Model, tgt_in: Tensor, chosen: Tensor, logits: Tensor) -> AbstractContextManager[Tensor]:
        drawn = draw_tokens(self.probabilities(logits))
        return nullcontext(tgt_in.masked_scatter(chosen, drawn))


@samplings.register
class ExpectedConfig(DistributionConfig):
    """The prediction is a mean embedding: that of all tokens, weighted by their probabilities."""

    kind: Literal["expected"] = "expected"

    def build(self, special: SpecialIds) -> "ExpectedEmbedding":
        return ExpectedEmbedding(
            gold=self.gold.build(), special=special, temperature=self.temperature, top_k=self.top_k
        )


class ExpectedEmbedding(Distribution):
    """The second pass reads Σ_v p_v E[v]. Its gradient reaches the embeddings E, not the probabilities p."""

    @contextmanager
    def replaced(self, model: Model, tgt_in: Tensor, chosen: Tensor, logits: Tensor) -> Iterator[Tensor]:
        embedding = model.tgt_embedding
        vectors = self.probabilities(logits) @ embedding.weight[: logits.shape[-1]]
        ids = -1 - torch.arange(len(vectors), device=tgt_in.device)
        with embedding.more_tokens(vectors):
            yield tgt_in.masked_scatter(chosen, ids)


def most_probable(logits: Tensor, k: int) -> Tensor:
    """The `k` largest of each row, and those equal to the smallest of them; the rest becomes -inf. 0: all."""
    if not 0 < k < logits.shape[-1]:
        return logits
    least = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < least, -torch.inf)
