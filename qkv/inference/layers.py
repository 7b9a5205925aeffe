"""Fused Transformer layers for inference, and one pass through them.

Weights are laid out by columns: the product with one or two rows, a step of greedy search, is then up to twice as fast
(the matrix is read in the order in which the result is summed), and the product with many rows is as fast as before.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.layers.attention.base import Attention, Block, Crossing, ForInference
from qkv.layers.attention.inference import FusedLinear, for_inference
from qkv.layers.frozen import frozen_copy
from qkv.layers.residual import Connection, Sublayer
from qkv.models.heads.base import LAST_LAYER, AttentionChoice
from qkv.models.transformer.decoder import Decoder, DecoderLayer
from qkv.models.transformer.encoder import EncoderLayer
from qkv.models.transformer.stacks.base import Layers

Module = TypeVar("Module", bound=nn.Module)


def by_columns(matrix: Tensor) -> Tensor:
    """The same matrix in column-major layout."""
    return matrix.t().contiguous().t()


def copied_by_columns(module: Module) -> Module:
    """A copy of a module in evaluation mode, with column-major linear layers."""
    copied = frozen_copy(module)
    for part in copied.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = by_columns(part.weight.data)
    return copied


def lay_by_columns(*owners: object) -> None:
    """Convert the fused projections of these objects to column-major layout."""
    for owner in owners:
        for part in vars(owner).values():
            for projection in part if isinstance(part, list) else [part]:
                if isinstance(projection, FusedLinear):
                    projection.weight = by_columns(projection.weight)


class FusedEncoderLayer:
    """An `EncoderLayer` for inference: fused weights as plain tensors."""

    def __init__(self, layer: EncoderLayer | DecoderLayer) -> None:
        self.attention = for_inference(layer.attention)
        self.attention_residual = layer.attention_residual.for_inference()
        self.feed_forward_residual = layer.feed_forward_residual.for_inference()
        self.feed_forward = layer.feed_forward.for_inference()


class FusedDecoderLayer(FusedEncoderLayer):
    """A `DecoderLayer` without gradients."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__(layer)
        self.cross_attention = for_inference(layer.cross_attention)
        self.cross_residual = layer.cross_residual.for_inference()


class EncoderPass(Layers):
    """All positions of a batch through the layers of an encoder, or the new ones behind a KV cache (see `Layers`)."""

    def __init__(self, layers: Sequence[FusedEncoderLayer], block: Block, past: Sequence[Tensor] | None = None) -> None:
        self.layers, self.block, self.past = layers, block, past

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        layer, past = self.layers[number], None if self.past is None else self.past[number]
        return [
            (layer.attention_residual, lambda h: layer.attention.extend(h, past, self.block)),
            (layer.feed_forward_residual, layer.feed_forward),
        ]


class DecoderPass(Layers):
    """The new positions of a batch through the layers of a decoder (see `Layers`).

    `past` holds each layer's part of the KV cache; without one, the block is the whole sequence. `crossings` are what
    each layer attends to in the source; the weights of that attention are kept for the layers in `watched`, the mean of
    the heads that `choice` names.
    """

    def __init__(
        self,
        layers: Sequence[FusedDecoderLayer],
        block: Block,
        past: Sequence[Tensor | None],
        crossings: Sequence[Crossing],
        watched: Sequence[int] = (),
        choice: AttentionChoice = LAST_LAYER,
    ) -> None:
        self.layers, self.block, self.past, self.crossings = layers, block, past, crossings
        self.watched, self.choice = watched, choice
        self.seen: list[Tensor] = []
        self.ends: Tensor | None = None

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        layer, past, crossing = self.layers[number], self.past[number], self.crossings[number]

        def attend(h: Tensor) -> Tensor:
            if number in self.watched:
                self.seen.append(self._mean_of_heads(layer.cross_attention, h, crossing))
            return layer.cross_attention.cross_attend(h, crossing)

        return [
            (layer.attention_residual, lambda h: layer.attention.extend(h, past, self.block)),
            (layer.cross_residual, attend),
            (layer.feed_forward_residual, layer.feed_forward),
        ]

    def remember(self, number: int, x: Tensor) -> None:
        connection, attend_to_past = self.sublayers(number)[0]
        connection(x, attend_to_past)

    def end_at(self, numbers: Tensor) -> None:
        self.ends = numbers

    def attended(self) -> Tensor:
        """The mean weights [R, W, S'] of the watched layers; where positions end early, those of their last layer."""
        if self.ends is None:
            return self.seen[0] if len(self.seen) == 1 else torch.stack(self.seen).mean(dim=0)
        last = (self.ends - self.watched[0])[None, ..., None].expand(1, *self.seen[0].shape)
        return torch.stack(self.seen).gather(0, last).squeeze(0)

    def _mean_of_heads(self, attention: ForInference, x: Tensor, crossing: Crossing) -> Tensor:
        """[R, W, S']"""
        weights = self.choice.mean_of_heads(attention.weights(x, crossing))
        return weights.reshape(-1, self.block.width, weights.shape[-1])


class SourceProjections:
    """The memory of each decoder layer [B, S', D] to its keys and values [L, B, 2 KV heads, S', E]."""

    def __init__(self, decoder: Decoder) -> None:
        layers = list(decoder.in_order())
        distinct = list(dict.fromkeys(layers))
        self.layer_at = [distinct.index(layer) for layer in layers]
        crossings = [layer.cross_attention for layer in distinct]
        self.heads = 2 * max(cross.kv_heads for cross in crossings)
        self.own_heads = uneven_heads([layer.cross_attention for layer in layers])
        parts = [
            _filled(part, self.heads // 2 * cross.head_width)
            for cross in crossings
            for part in (cross.key, cross.value)
        ]
        self.each = [FusedLinear(*parts[2 * number : 2 * number + 2]) for number in range(len(crossings))]
        self.fused = FusedLinear(*parts)

    def __call__(self, memories: Sequence[Tensor]) -> Tensor:
        first = memories[0]
        if all(memory is first for memory in memories):
            projected = self._by_heads(self.fused(first), len(self.each))
            return projected if len(self.each) == len(memories) else projected.expand(len(memories), *[-1] * 4)
        parts = [self._by_heads(self.each[at](memory), 1) for at, memory in zip(self.layer_at, memories, strict=True)]
        return torch.cat(parts)

    def _by_heads(self, projected: Tensor, layers: int) -> Tensor:
        split: Tensor = projected.unflatten(-1, (layers, self.heads, -1))
        return split.permute(2, 0, 3, 1, 4).contiguous()


def uneven_heads(attentions: Sequence[Attention]) -> tuple[int, ...] | None:
    """The number of heads of keys and values of each layer; None: it is the same in all of them."""
    heads = tuple(attention.kv_heads for attention in attentions)
    return heads if len(set(heads)) > 1 else None


def _filled(linear: nn.Linear, width: int) -> nn.Linear:
    """A linear layer with outputs that are 0 behind its own, `width` in all."""
    missing = width - linear.out_features
    if not missing:
        return linear
    made: nn.Linear = nn.utils.skip_init(nn.Linear, linear.in_features, width, dtype=linear.weight.dtype)
    made.weight, made.bias = (
        nn.Parameter(F.pad(linear.weight, (0, 0, 0, missing))),
        nn.Parameter(F.pad(linear.bias, (0, missing))),
    )
    return made


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask, True = may attend, as an additive mask: 0 or -inf."""
    return like.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)


def padding_mask(keep: Tensor | None, like: Tensor) -> Tensor | None:
    """[B, 1, 1, K] of `keep` [B, K], True = a real key; None: all are real."""
    return None if keep is None or bool(keep.all()) else additive(keep[:, None, None], like)
