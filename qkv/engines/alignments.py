"""Where the tokens of an output look in the source, by any head: read off one more pass over the finished outputs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.parallel.base import ParallelModel
from qkv.search.hypothesis import Hypothesis
from qkv.text.special import SPECIAL


class AlignmentHead(NamedTuple):
    """Which attention weights say where a target token looks."""

    layer: int
    """Of the decoder, counted from 1."""
    head: int
    """Counted from 1; 0: the mean over the heads."""
    shifted: bool = False
    """Whether the weights are those of the step that reads the token, not of the step that predicts it."""

    def __str__(self) -> str:
        head = f"head {self.head}" if self.head else "the mean over the heads"
        return f"layer {self.layer}, {head}, at the step that {'reads' if self.shifted else 'predicts'} the word"

    def of(self, layers: Sequence[Tensor], row: int, tgt_length: int, src_length: int) -> Tensor:
        """[target tokens, source tokens] of one row of the weights [B, H, T, S] of each layer, on the CPU."""
        if not 1 <= self.layer <= len(layers):
            raise UsageError(f"layer {self.layer}: the decoder has the layers 1 to {len(layers)}")
        layer = layers[self.layer - 1][row]
        if not 0 <= self.head <= len(layer):
            raise UsageError(
                f"head {self.head}: layer {self.layer} has the heads 1 to {len(layer)}, and 0 is their mean"
            )
        weights = layer[self.head - 1] if self.head else layer.mean(dim=0)
        first = int(self.shifted)
        return weights[first : first + tgt_length, :src_length].float().cpu()


@torch.no_grad()
def cross_attention(model: Model, batch: Batch) -> list[Tensor]:
    """[B, H, T, S] of each layer. The model is in evaluation mode."""
    if isinstance(model, ParallelModel):
        raise UsageError(f"a model of the kind {model.kind} reads no given target; give an autoregressive one")
    with model.watch_cross_attention() as layers:
        model(batch.to(model.device))
    return layers


def alignment_heads(model: Model) -> list[AlignmentHead]:
    """Every layer and head, the means over heads included, at both steps."""
    some = collate([[SPECIAL.unk]], [[SPECIAL.unk]], SPECIAL, SPECIAL, [0])
    sizes = [weights.shape[1] for weights in cross_attention(model, some)]
    return [
        AlignmentHead(layer, head, shifted)
        for layer, heads in enumerate(sizes, start=1)
        for head in range(heads + 1 if heads > 1 else 1)
        for shifted in (False, True)
    ]


def with_alignments(
    models: Sequence[Model], sources: Sequence[list[int]], found: list[list[Hypothesis]], head: AlignmentHead
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, with the weights of one head as `Hypothesis.attention`. Sources end with END."""
    if len(models) > 1:
        raise UsageError("the layers and heads of an ensemble are those of several models; give one model")
    rows = [(source, one) for source, own in zip(sources, found, strict=True) for one in own]
    if not rows:
        return found
    src_ids, tgt_ids = [source[:-1] for source, _ in rows], [one.tokens for _, one in rows]
    layers = cross_attention(models[0], collate(src_ids, tgt_ids, SPECIAL, SPECIAL, range(len(rows))))
    marked = iter(
        replace(one, attention=head.of(layers, row, len(one.tokens), len(source)).tolist())
        for row, (source, one) in enumerate(rows)
    )
    return [[next(marked) for _ in own] for own in found]
