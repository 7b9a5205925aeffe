"""The cached decoder over several new positions at once, each row at a length of its own.

A search that guesses what follows has it checked in one wide pass: position i of a block is decoded as if the tokens
before it were right. What turns out wrong is forgotten by a shorter length; its keys and values are overwritten later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.attention import merge_heads, split_heads
from qkv.functional.masks import causal
from qkv.layers.attention.inference import InferenceAttention
from qkv.layers.attention.multi_head import MultiHeadAttention
from qkv.layers.residual import Connection, Sublayer
from qkv.layers.view import View
from qkv.models import inference
from qkv.models.columns import laid_by_columns, lay_projections
from qkv.models.inference import DecoderState, InferenceModel
from qkv.models.inference_layers import Watch
from qkv.models.seq2seq import Seq2Seq
from qkv.models.stacks.base import Depth, Layers
from qkv.models.stacks.universal import Universal
from qkv.models.wide_attention import Across, is_plain

ROOM = 32
"""Positions by which the room for keys and values grows."""
MOST_KEPT = 1024
"""Positions up to which the mask of all of them is kept."""


@dataclass(frozen=True)
class Room:
    """Keys and values of what was decoded, [L, R, capacity, 2, KV heads, E], with a view of each layer's."""

    tensor: Tensor

    @cached_property
    def layers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """What is written to [R, capacity, 2 KV heads E], keys and values [R, KV heads, capacity, E]."""
        parts = self.tensor.transpose(2, 4).unbind(0)
        return [(own.flatten(2), *part.unbind(2)) for own, part in zip(self.tensor, parts, strict=True)]

    @property
    def capacity(self) -> int:
        return self.tensor.shape[2]

    def grown(self, needed: int) -> "Room":
        """The same with at least `needed` positions."""
        missing = needed - self.capacity
        return self if missing <= 0 else Room(F.pad(self.tensor, (0, 0, 0, 0, 0, 0, 0, max(missing, ROOM))))


@dataclass(frozen=True)
class BlockState:
    """What each row has decoded so far, and the keys and values of its source.

    The room is shared by all states of a run: once a state has gone on, only those that came of it may.
    """

    room: Room
    """Of row r the first lengths[r] positions count."""
    lengths: tuple[int, ...]
    memory: Tensor
    """[L, 2, R, KV heads, S, E]"""
    padding: Tensor | None
    """[R, 1, 1, S], as in `DecoderState`."""

    def back_to(self, lengths: Sequence[int]) -> "BlockState":
        """The same with fewer positions: row r forgets all from lengths[r] on."""
        return replace(self, lengths=tuple(lengths))

    def select(self, rows: Sequence[int]) -> "BlockState":
        """Only these rows, in this order."""
        index = torch.tensor(rows, device=self.memory.device)
        padding = None if self.padding is None else self.padding.index_select(0, index)
        room, lengths = Room(self.room.tensor.index_select(1, index)), tuple(self.lengths[row] for row in rows)
        return BlockState(room, lengths, self.memory.index_select(2, index), padding)

    def as_steps(self, beams: int) -> DecoderState:
        """The state from which single steps go on, with `beams` equal rows for each row; all are equally long."""
        length = self.lengths[0]
        assert all(each == length for each in self.lengths)
        past = self.room.tensor[:, :, :length].permute(0, 3, 1, 4, 2, 5).repeat_interleave(beams, 2)
        return DecoderState(inference.Room(past.contiguous(), length), length, self.memory, self.padding, beams)


def has_blocks(model: Seq2Seq) -> bool:
    """Whether `BlockModel` can be made of it: each new position sees all before it, and no layer is left out."""
    plain = all(type(layer.attention) is MultiHeadAttention for layer in model.decoder.in_order())
    return plain and type(model.decoder.depth) in (Depth, Universal)


class BlockModel:
    """The wide twin of `InferenceModel.step`, of a model for which `has_blocks`.

    It copies the weights as they are now.
    """

    def __init__(self, model: Seq2Seq) -> None:
        model = laid_by_columns(model)
        self.model = InferenceModel(model)
        lay_projections(*(layer.attention for layer in self.model.encoder.layers), self.model.project_memories)
        lay_projections(*(part for layer in self.model.decoder for part in (layer.attention, layer.cross_attention)))
        self.embed, self.depth = model.tgt_embedder, model.decoder.depth
        self.most_positions = model.tgt_embedder.positions.max_length
        self._hidden = model.head.weight.detach().new_empty(0, 0)

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory."""
        return self.model.encode(src, src_keep)

    def start(self, memory: Tensor, src_keep: Tensor) -> BlockState:
        """Nothing decoded yet."""
        return self.behind(self.model.start(memory, src_keep))

    def behind(self, start: DecoderState) -> BlockState:
        """The same from a state of single steps in which nothing was decoded; one row for each of its sentences."""
        layers, _, _, heads, _, width = start.room.tensor.shape
        rows = start.memory.shape[2]
        room = Room(start.memory.new_zeros(layers, rows, ROOM, 2, heads, width))
        return BlockState(room, (0,) * rows, start.memory, start.padding)

    def extend(self, tokens: Tensor, state: BlockState, watch: Watch | None = None) -> tuple[Tensor, BlockState]:
        """The next W tokens of each row [R, W] to decoded vectors [R, W, D].

        `watch` gets the weights with which the last layer attends to the source, the mean of its heads [R W, S].
        """
        rows, width = tokens.shape
        state = replace(state, room=state.room.grown(max(state.lengths) + width))
        places = self._places(state, width)
        layers = _WideLayers(self.model, state, places, width, watch is not None)
        x = self.embed(tokens, places.view.q_pos)
        # A product of rows is a little faster than one of rows in batches.
        x = self.depth(x.flatten(0, 1) if type(self.depth) is Depth else x, layers, places.view)
        if watch is not None:
            watch(self.model.wiring.fold(layers.seen[-1]))
        lengths = tuple(length + width for length in state.lengths)
        return self.model.decoder_final(x).view(rows, width, -1), state.back_to(lengths)

    def _places(self, state: BlockState, width: int) -> "_Places":
        first, capacity = state.lengths[0], state.room.capacity
        k_pos = torch.arange(capacity, device=state.memory.device)
        if all(length == first for length in state.lengths):
            view = View(k_pos[first : first + width], k_pos, causal)
            return _Places(view, self._hiding(first, width, capacity), None)
        rows = torch.arange(len(state.lengths), device=k_pos.device)[:, None]
        q_pos = torch.tensor(state.lengths, device=k_pos.device)[:, None] + k_pos[:width]
        index = (rows * capacity + q_pos).flatten()
        hidden = torch.where(k_pos <= q_pos[..., None], 0.0, -torch.inf).to(self._hidden)[:, None]
        if self.most_positions is not None:
            # A short row is filled up to the width of the others: what it writes there is never looked at.
            q_pos = q_pos.clamp_max(self.most_positions - 1)
        return _Places(View(q_pos, k_pos, causal), hidden, index)

    def _hiding(self, first: int, width: int, capacity: int) -> Tensor:
        """[W, capacity]: -inf where the query at `first` + row does not see the key of the column, else 0."""
        if capacity > MOST_KEPT:
            return self._hidden.new_full((width, capacity), -torch.inf).triu_(1 + first)
        if len(self._hidden) < capacity:
            self._hidden = self._hidden.new_full((2 * capacity, 2 * capacity), -torch.inf).triu_(1)
        return self._hidden[first : first + width, :capacity]


@dataclass(frozen=True)
class _Places:
    """Where the new positions stand and whom they see, and where their keys and values are written."""

    view: View
    """Queries at [W], or at [R, W] where the rows differ in length; keys at all positions of the room."""
    hidden: Tensor
    """The same for PyTorch's kernel, which adds it: 0 or -inf, [W, capacity] or [R, 1, W, capacity]."""
    index: Tensor | None
    """[R W] among the positions of all rows; None: all rows write to the same W positions."""


class _WideLayers(Layers):
    """See `Layers`: the decoder's layers, bound to one wide pass."""

    def __init__(self, model: InferenceModel, state: BlockState, places: _Places, width: int, watched: bool) -> None:
        self.layers = model.decoder
        self.state = state
        self.places = places
        self.width = width
        self.watched = watched
        self.seen: list[Tensor] = []
        """The weights with which the last layer attends to the source, if they are `watched`."""

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        layer = self.layers[number]
        return [
            (layer.attention_residual, lambda h: self._look_back(number, h)),
            (layer.cross_residual, lambda h: self._look_at_source(number, h)),
            (layer.feed_forward_residual, layer.feed_forward),
        ]

    def _look_back(self, number: int, x: Tensor) -> Tensor:
        """Self-attention of the new positions, whose keys and values are written to the room."""
        attention, (room, keys, values) = self.layers[number].attention, self.state.room.layers[number]
        assert isinstance(attention, InferenceAttention)
        view, own = self.places.view, attention.sizes[0]
        projected = attention.query_key_value(x).view(len(room), self.width, -1)
        queries = self._by_heads(projected.narrow(2, 0, own), attention)
        new = projected.narrow(2, own, room.shape[2])
        if attention.turns:
            queries = attention.positions.rotate(queries, view.q_pos)
            keys_given, values_given = new.split(attention.sizes[1:], -1)
            turned = attention.positions.rotate(split_heads(keys_given, attention.kv_heads), view.q_pos)
            new = torch.cat([merge_heads(turned), values_given], -1)
        if self.places.index is None:
            room.narrow(1, self.state.lengths[0], self.width).copy_(new)
        else:
            room.view(-1, room.shape[2]).index_copy_(0, self.places.index, new.flatten(0, 1))
        if is_plain(attention):
            context = F.scaled_dot_product_attention(queries, keys, values, self.places.hidden)
        else:
            context = attention.mix(queries, keys, values, view)
        return attention.output(context.transpose(1, 2).reshape(x.shape))

    def _look_at_source(self, number: int, x: Tensor) -> Tensor:
        """Attention to the source."""
        cross = self.layers[number].cross_attention
        across = Across(cross, self.width, self.state.memory[number], self.state.padding)
        if self.watched and number == len(self.layers) - 1:
            self.seen.append(across.weights(x))
        return across(x)

    def _by_heads(self, queries: Tensor, attention: InferenceAttention) -> Tensor:
        """[.., D] -> [R, H, W, E]"""
        return queries.view(-1, self.width, attention.num_heads, attention.head_width).transpose(1, 2)
