"""A model without gradients, for speed: weights fused and bound as plain tensors, the decoder one token at a time.

Keys and values of what was decoded are kept, not computed again. The state is a value: a step gives a new one and
leaves the old one as it was, so a search may go on from any of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.layers.view import View
from qkv.models.inference_layers import InferenceDecoderLayer, MemoryProjections, StepLayers, Watch
from qkv.models.seq2seq import Seq2Seq
from qkv.models.wide_attention import hiding
from qkv.models.wide_encoder import InferenceEncoder

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
    """[L, 2, B, H, S', E]; S' is S unless a wiring attends to several states of a source token."""
    padding: Tensor | None
    """[B, 1, 1, S'], 0 for a token and -inf for none, as PyTorch's kernel adds it; None: no padding."""
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
        self.wiring = model.encoder.wiring
        self.decoder_depth, self.decoder_final = model.decoder.depth, model.decoder.final
        # A layer that stands at several depths is laid out once.
        decoder = {layer: InferenceDecoderLayer(layer) for layer in model.decoder.in_order()}
        self.encoder = InferenceEncoder(model.encoder)
        self.decoder = [decoder[layer] for layer in model.decoder.in_order()]
        self.project_memories = MemoryProjections(model.decoder)
        own = next(model.decoder.in_order()).attention
        self.past_shape = (own.kv_heads, ROOM, own.head_width)
        self._range = torch.arange(0)

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory [B, S, W]."""
        pos = self._positions(src.shape[1])
        view = View(pos, pos, keep=src_keep, tokens=src)
        return self.encoder(self.src_embedder(src, pos), view)

    def start(self, memory: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        """Nothing decoded yet; `beams` rows for each sentence of `memory`."""
        padding = hiding(self.wiring.spread(src_keep), memory)
        room = memory.new_zeros(len(self.decoder), 2, len(memory) * beams, *self.past_shape)
        return DecoderState(Room(room), 0, self.project_memories(self.wiring.memories(memory)), padding, beams)

    def step(self, tokens: Tensor, state: DecoderState, watch: Watch | None = None) -> tuple[Tensor, DecoderState]:
        """The next token of each row [R] to decoded vectors [R, D].

        `watch` gets the weights with which the last layer attends to the source, the mean of its heads [R, S].
        """
        at = state.length
        x, pos = self.embed_one(tokens, at), self._positions(at + 1)
        room = state.next_room()
        layers = StepLayers(self.decoder, room.tensor.narrow(4, 0, at + 1).unbind(0), pos, state)
        if watch is not None:
            layers.watched = 0 if self.decoder_depth.ends_early else len(self.decoder) - 1
        x = self.decoder_depth.step(x, layers, at)
        if watch is not None:
            watch(self.wiring.fold(layers.attended()))
        return self.decoder_final(x), state.after(room)

    def _positions(self, count: int) -> Tensor:
        if self._range.shape[0] < count:
            self._range = torch.arange(2 * count, device=self.project_memories.device)
        return self._range.narrow(0, 0, count)
