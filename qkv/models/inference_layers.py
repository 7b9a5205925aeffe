"""The layers of a model without gradients: weights fused and bound as plain tensors (see `Residual.for_inference`)."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from qkv.layers.attention.inference import Projection, for_inference
from qkv.layers.residual import Connection, Sublayer
from qkv.layers.view import View
from qkv.models.decoder import Decoder, DecoderLayer
from qkv.models.encoder import EncoderLayer
from qkv.models.stacks.base import CachedLayers

Watch = Callable[[Tensor], None]


@runtime_checkable
class Sources(Protocol):
    """What the rows of a step have of their sources: see `DecoderState`."""

    @property
    def memory(self) -> Tensor: ...

    @property
    def padding(self) -> Tensor | None: ...

    @property
    def beams(self) -> int: ...


class InferenceEncoderLayer:
    """An `EncoderLayer` without gradients."""

    def __init__(self, layer: EncoderLayer) -> None:
        self.attention = for_inference(layer.attention)
        self.attention_residual = layer.attention_residual.for_inference()
        self.feed_forward_residual = layer.feed_forward_residual.for_inference()
        self.feed_forward = layer.feed_forward.for_inference()

    def __call__(self, x: Tensor, view: View) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, view))
        return self.feed_forward_residual(x, self.feed_forward)

    def sublayers(self, view: View) -> list[tuple[Connection, Sublayer]]:
        return [
            (self.attention_residual, lambda h: self.attention(h, view)),
            (self.feed_forward_residual, self.feed_forward),
        ]


class InferenceDecoderLayer:
    """A `DecoderLayer` without gradients, for one new position a row."""

    def __init__(self, layer: DecoderLayer) -> None:
        self.attention = for_inference(layer.attention)
        self.cross_attention = for_inference(layer.cross_attention)
        self.attention_residual = layer.attention_residual.for_inference()
        self.cross_residual = layer.cross_residual.for_inference()
        self.feed_forward_residual = layer.feed_forward_residual.for_inference()
        self.feed_forward = layer.feed_forward.for_inference()

    def sublayers(
        self, past: Tensor, pos: Tensor, memory: Tensor, sources: Sources, watch: Watch | None
    ) -> list[tuple[Connection, Sublayer]]:
        """`past` [2, R, KV heads, T, E] at the positions `pos`; `memory` [2, B, KV heads, S, E]."""
        beams, padding, cross = sources.beams, sources.padding, self.cross_attention

        def attend(h: Tensor) -> Tensor:
            if watch is not None:
                watch(cross.weights(h, memory, beams, padding))
            return cross.attend(h, memory, beams, padding)

        return [
            (self.attention_residual, lambda h: self.attention.step(h, past, pos)),
            (self.cross_residual, attend),
            (self.feed_forward_residual, self.feed_forward),
        ]


class StepLayers(CachedLayers):
    """See `CachedLayers`."""

    def __init__(
        self, layers: Sequence[InferenceDecoderLayer], pasts: Sequence[Tensor], pos: Tensor, sources: Sources
    ) -> None:
        self.layers = layers
        self.pasts = pasts
        self.pos = pos
        self.sources = sources
        self.memories = sources.memory.unbind(0)
        self.watched = len(layers)
        """From this layer on, the weights of the attention to the source are kept."""
        self.seen: list[Tensor] = []
        self.ends: Tensor | None = None

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        watch = self.seen.append if number >= self.watched else None
        past, memory = self.pasts[number], self.memories[number]
        return self.layers[number].sublayers(past, self.pos, memory, self.sources, watch)

    def remember(self, number: int, x: Tensor) -> None:
        connection, attend_to_past = self.sublayers(number)[0]
        connection(x, attend_to_past)

    def end_at(self, numbers: Tensor) -> None:
        self.ends = numbers

    def attended(self) -> Tensor:
        """The weights with which each row's last layer attends to the source, the mean of its heads [R, S']."""
        if self.ends is None:
            return self.seen[-1]
        rows = torch.arange(len(self.ends), device=self.ends.device)
        return torch.stack(self.seen)[self.ends - self.watched, rows]


class MemoryProjections:
    """The memory of each decoder layer [B, S', D] to its keys and values [L, 2, B, KV heads, S', E]."""

    def __init__(self, decoder: Decoder) -> None:
        layers = list(decoder.in_order())
        distinct = list(dict.fromkeys(layers))
        self.layer_at = [distinct.index(layer) for layer in layers]
        crossings = [layer.cross_attention for layer in distinct]
        self.heads = crossings[0].kv_heads
        self.each = [Projection(cross.key, cross.value) for cross in crossings]
        self.fused = Projection(*(part for cross in crossings for part in (cross.key, cross.value)))
        self.device = self.fused.weight.device

    def __call__(self, memories: Sequence[Tensor]) -> Tensor:
        first = memories[0]
        if all(memory is first for memory in memories):
            projected = self._by_heads(self.fused(first), len(self.each))
            return projected if len(self.each) == len(memories) else projected.expand(len(memories), *[-1] * 5)
        parts = [self._by_heads(self.each[at](memory), 1) for at, memory in zip(self.layer_at, memories, strict=True)]
        return torch.cat(parts)

    def _by_heads(self, projected: Tensor, layers: int) -> Tensor:
        split = projected.unflatten(-1, (layers, 2, self.heads, -1))
        return split.permute(2, 3, 0, 4, 1, 5).contiguous()
