"""What every loss on cross-attention weights does, and the registry of the kinds."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.batch import Batch
from qkv.functional.schedules import warm_up
from qkv.models.base import Model
from qkv.models.config import Seq2SeqConfig
from qkv.models.transformer.channels import auxiliary_losses

Numbers = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class AttentionLoss:
    """A cost of the cross-attention weights of some layers and heads.

    Args:
        weight: How much the cost counts beside the cross-entropy of the target.
        layers: Decoder layers, counted from 1; None: all.
        heads: Heads of each of these layers, counted from 1; None: all.
        warmup: The weight grows linearly from 0 over this many updates.
        until: The weight falls linearly, and is 0 from this update on; None: it does not fall.
    """

    weight: float = 1.0
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    warmup: int = 0
    until: int | None = None

    def cost(self, weights: Tensor, batch: Batch) -> Tensor:
        """The weights [B, H, T, S] of the chosen heads of one layer to the cost of each sentence [B]."""
        raise NotImplementedError

    def weight_at(self, update: int) -> float:
        """`update` counts from 1."""
        left = 1.0 if self.until is None else max(0.0, 1 - update / self.until)
        return self.weight * warm_up(update, self.warmup) * left

    def layer_cost(self, weights: Tensor, batch: Batch) -> Tensor:
        """The weights [P B, H, T, S] of all heads, from P passes over the batch as one, to costs [P B]."""
        chosen = weights if self.heads is None else weights[:, [head - 1 for head in self.heads]]
        precise = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
        return torch.cat([self.cost(one_pass, batch) for one_pass in precise.split(len(batch))])


@contextmanager
def adding_attention_losses(losses: Sequence[AttentionLoss], model: Model, batch: Batch, update: int) -> Iterator[None]:
    """Add the mean over the layers of each loss to the auxiliary losses of the passes inside the block.

    Only the layers of a loss whose weight is not zero compute their weights.
    """
    factors = [(loss, loss.weight_at(update)) for loss in losses]
    active = [(loss, factor) for loss, factor in factors if factor > 0]
    with ExitStack() as stack:
        watched = [stack.enter_context(model.watch_cross_attention(loss.layers)) for loss, _ in active]
        yield
    for (loss, factor), layers in zip(active, watched, strict=True):
        for weights in layers:
            auxiliary_losses.say(factor / len(layers) * loss.layer_cost(weights, batch))


class AttentionLossConfig(Config):
    """A loss on the weights of cross-attention, beside the cross-entropy of the target."""

    needs_alignments: ClassVar[bool] = False
    """Whether the training data must have alignments."""

    kind: str
    weight: float = Field(default=1.0, ge=0)
    """How much it counts beside the cross-entropy; both are means over the target tokens."""
    layers: Numbers | None = None
    """Decoder layers, counted from 1 (those that share their weights are one); null: all."""
    heads: Numbers | None = None
    """Heads of each of these layers, counted from 1; null: all."""
    warmup: int = Field(default=0, ge=0)
    """The weight grows linearly from 0 over this many updates."""
    until: int | None = Field(default=None, ge=1)
    """The weight falls linearly, and is 0 from this update on; null: it does not fall."""

    def build(self) -> AttentionLoss:
        raise NotImplementedError


attention_losses = Kinds[AttentionLossConfig]("attention loss")


def attention_problem(losses: Sequence[AttentionLossConfig], model: Seq2SeqConfig) -> str | None:
    """Why the model does not support these losses; None: it does."""
    if not losses:
        return None
    size = model.cross_attention_size
    if size is None:
        return (
            f"objective.attention: model.kind {model.kind} with these parts has no cross-attention whose weights can "
            "be trained; use model.kind recurrent, or transformer with stack layers or universal"
        )
    for loss in losses:
        for name, numbers, most in (("layers", loss.layers, size.layers), ("heads", loss.heads, size.heads)):
            if numbers and max(numbers) > most:
                return f"objective.attention: {name} has {max(numbers)}, but the model has {most}; give 1 to {most}"
    return None
