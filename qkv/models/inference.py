"""A model without gradients, for speed: weights fused and bound as plain tensors, the decoder one token at a time.

Keys and values of what was decoded are kept, not computed again. The state is a value: a step gives a new one and
leaves the old one as it was, so a search may go on from any of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.layers.inference_attention import InferenceAttention, Projection
from qkv.layers.view import View
from qkv.models.decoder import DecoderLayer
from qkv.models.encoder import EncoderLayer
from qkv.models.seq2seq import Seq2Seq

Watch = Callable[[Tensor], None]
ROOM = 16
"""Positions by which the room for keys and values grows."""


@dataclass
class Room:
    """Keys and values [L, 2, R, H, capacity, E]. The first `used` positions are written and never change."""

    tensor: Tensor
    used: int = 0


@dataclass(frozen=True)
class DecoderState:
    """What the rows have decoded so far (`length` positions of `room`), and the keys and values of their sources.

    Row = sentence x beams + beam: the beams of a sentence attend to one copy of its source.
    """

    room: Room
    length: int
    memory: Tensor
    """[L, 2, B, H, S, E]"""
    padding: Tensor | None
    """[B, 1, 1, S], 0 for a token and -inf for none, as PyTorch's kernel adds it; None: no padding."""
    beams: int

    def reorder(self, rows: Tensor, sentences: Tensor) -> "DecoderState":
        """New row r goes on from old row rows[r]; new sentence i is old sentence sentences[i]."""
        room = Room(self.room.tensor.index_select(2, rows), self.length)
        if torch.equal(sentences, torch.arange(self.memory.shape[2], device=sentences.device)):
            return DecoderState(room, self.length, self.memory, self.padding, self.beams)
        memory = self.memory.index_select(2, sentences)
        padding = None if self.padding is None else self.padding.index_select(0, sentences)
        return DecoderState(room, self.length, memory, padding, self.beams)

    def next_room(self) -> Room:
        """A room whose next position is free: this one, unless it is full or another step from here has taken it."""
        tensor = self.room.tensor
        if self.length == tensor.shape[4]:
            return Room(F.pad(tensor, (0, 0, 0, ROOM)), self.length)
        return self.room if self.room.used == self.length else Room(tensor.clone(), self.length)

    def after(self, room: Room) -> "DecoderState":
        """One position more, which is written in `room`."""
        room.used = self.length + 1
        return DecoderState(room, self.length + 1, self.memory, self.padding, self.beams)


class InferenceModel:
    """`encode` and the cached steps of a model. It copies weights: make a new one after they have changed."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model
        self.src_embedder = model.src_embedder
        self.embed_one = model.tgt_embedder.for_one_token()
        self.encoder_final, self.decoder_final = model.encoder.final, model.decoder.final
        # A layer that stands at several depths is laid out once.
        encoder = {layer: _EncoderLayer(layer) for layer in model.encoder.in_order()}
        decoder = {layer: _DecoderLayer(layer) for layer in model.decoder.in_order()}
        self.encoder = [encoder[layer] for layer in model.encoder.in_order()]
        self.decoder = [decoder[layer] for layer in model.decoder.in_order()]
        crossings = [layer.cross_attention for layer in model.decoder.in_order()]
        self.memory_projection = Projection(*(part for cross in crossings for part in (cross.key, cross.value)))
        self.num_heads = crossings[0].num_heads
        self._range = torch.arange(0)

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory [B, S, D]."""
        pos = self._positions(src.shape[1])
        view = View(pos, pos, keep=src_keep)
        x = self.src_embedder(src, pos)
        for layer in self.encoder:
            x = layer(x, view)
        return self.encoder_final(x)

    def start(self, memory: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        """Nothing decoded yet; `beams` rows for each sentence of `memory`."""
        batch, length, width = memory.shape
        projected = self.memory_projection(memory).view(batch, length, len(self.decoder), 2, self.num_heads, -1)
        padding = None
        if not src_keep.all():
            padding = memory.new_zeros(batch, 1, 1, length).masked_fill_(~src_keep[:, None, None], -torch.inf)
        shape = (len(self.decoder), 2, batch * beams, self.num_heads, ROOM, width // self.num_heads)
        return DecoderState(
            Room(memory.new_zeros(shape)), 0, projected.permute(2, 3, 0, 4, 1, 5).contiguous(), padding, beams
        )

    def step(self, tokens: Tensor, state: DecoderState, watch: Watch | None = None) -> tuple[Tensor, DecoderState]:
        """The next token of each row [R] to decoded vectors [R, D].

        `watch` gets the weights with which the last layer attends to the source, the mean of its heads [R, S].
        """
        at = state.length
        x, pos = self.embed_one(tokens, at), self._positions(at + 1)
        room = state.next_room()
        pasts, memories = room.tensor.narrow(4, 0, at + 1).unbind(0), state.memory.unbind(0)
        for layer, past, memory in zip(self.decoder[:-1], pasts, memories, strict=False):
            x = layer(x, past, pos, memory, state)
        x = self.decoder[-1](x, pasts[-1], pos, memories[-1], state, watch)
        return self.decoder_final(x), state.after(room)

    def _positions(self, count: int) -> Tensor:
        if self._range.shape[0] < count:
            self._range = torch.arange(2 * count, device=self.memory_projection.weight.device)
        return self._range.narrow(0, 0, count)


class _EncoderLayer:
    def __init__(self, layer: EncoderLayer) -> None:
        self.attention = InferenceAttention(layer.attention)
        self.attention_residual = layer.attention_residual.for_inference()
        self.feed_forward_residual = layer.feed_forward_residual.for_inference()
        self.feed_forward = layer.feed_forward.for_inference()

    def __call__(self, x: Tensor, view: View) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, view))
        return self.feed_forward_residual(x, self.feed_forward)


class _DecoderLayer:
    def __init__(self, layer: DecoderLayer) -> None:
        self.attention = InferenceAttention(layer.attention)
        self.cross_attention = InferenceAttention(layer.cross_attention)
        self.attention_residual = layer.attention_residual.for_inference()
        self.cross_residual = layer.cross_residual.for_inference()
        self.feed_forward_residual = layer.feed_forward_residual.for_inference()
        self.feed_forward = layer.feed_forward.for_inference()

    def __call__(
        self, x: Tensor, past: Tensor, pos: Tensor, memory: Tensor, state: DecoderState, watch: Watch | None = None
    ) -> Tensor:
        beams, padding = state.beams, state.padding

        def attend(h: Tensor) -> Tensor:
            if watch is not None:
                watch(self.cross_attention.weights(h, memory, beams, padding))
            return self.cross_attention.attend(h, memory, beams, padding)

        x = self.attention_residual(x, lambda h: self.attention.step(h, past, pos))
        x = self.cross_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward)
