"""The cached decoder over several new positions at once, each row at a length of its own.

A search that guesses what follows has it checked in one wide pass: position i of a block is decoded as if the tokens
before it were right. What turns out wrong is forgotten by a shorter length; its keys and values are overwritten later.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.attention import merge_heads, split_heads
from qkv.functional.masks import causal
from qkv.layers.attention.inference import InferenceAttention, Projection
from qkv.layers.attention.multi_head import MultiHeadAttention
from qkv.layers.residual import Connection, Sublayer
from qkv.layers.view import View
from qkv.models.columns import by_columns, laid_by_columns
from qkv.models.inference import InferenceModel
from qkv.models.inference_layers import Watch
from qkv.models.seq2seq import Seq2Seq
from qkv.models.stacks.base import Depth
from qkv.models.stacks.universal import Universal

ROOM = 32
"""Positions by which the room for keys and values grows."""


@dataclass(frozen=True)
class BlockState:
    """What each row has decoded so far, and the keys and values of its source.

    The room is shared by all states of a run: once a state has gone on, only those that came of it may.
    """

    room: Tensor
    """Keys and values [L, 2, R, capacity, KV heads x E]; of row r the first lengths[r] positions count."""
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
        index = torch.tensor(rows, device=self.room.device)
        padding = None if self.padding is None else self.padding.index_select(0, index)
        lengths = tuple(self.lengths[row] for row in rows)
        return BlockState(self.room.index_select(2, index), lengths, self.memory.index_select(2, index), padding)

    def with_room(self, needed: int) -> "BlockState":
        """The same with at least `needed` positions to write to."""
        missing = needed - self.room.shape[3]
        return self if missing <= 0 else replace(self, room=F.pad(self.room, (0, 0, 0, max(missing, ROOM))))


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
        for projection in _projections(self.model):
            projection.weight = by_columns(projection.weight)
        self.embed, self.depth = model.tgt_embedder, model.decoder.depth
        self.most_positions = model.tgt_embedder.positions.max_length

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory."""
        return self.model.encode(src, src_keep)

    def start(self, memory: Tensor, src_keep: Tensor) -> BlockState:
        """Nothing decoded yet."""
        single = self.model.start(memory, src_keep)
        layers, _, rows, heads, _, width = single.room.tensor.shape
        room = memory.new_zeros(layers, 2, rows, ROOM, heads * width)
        return BlockState(room, (0,) * rows, single.memory, single.padding)

    def extend(self, tokens: Tensor, state: BlockState, watch: Watch | None = None) -> tuple[Tensor, BlockState]:
        """The next W tokens of each row [R, W] to decoded vectors [R, W, D].

        `watch` gets the weights with which the last layer attends to the source, the mean of its heads [R W, S].
        """
        width = tokens.shape[1]
        state = state.with_room(max(state.lengths) + width)
        places = self._places(state, width)
        layers = _WideLayers(self.model, state, places, watch is not None)
        x = self.depth(self.embed(tokens, places.view.q_pos), layers, places.view)
        if watch is not None:
            watch(self.model.wiring.fold(layers.seen[-1]))
        lengths = tuple(length + width for length in state.lengths)
        return self.model.decoder_final(x), state.back_to(lengths)

    def _places(self, state: BlockState, width: int) -> "_Places":
        first, longest = state.lengths[0], max(state.lengths) + width
        k_pos = torch.arange(longest, device=state.room.device)
        if all(length == first for length in state.lengths):
            return _Places(View(k_pos[first:], k_pos, causal if width > 1 else None), None)
        rows = torch.arange(len(state.lengths), device=k_pos.device)[:, None]
        q_pos = torch.tensor(state.lengths, device=k_pos.device)[:, None] + k_pos[:width]
        index = (rows * state.room.shape[3] + q_pos).flatten()
        if self.most_positions is not None:
            # A short row is filled up to the width of the others: what it writes there is never looked at.
            q_pos, k_pos = (pos.clamp_max(self.most_positions - 1) for pos in (q_pos, k_pos))
        return _Places(View(q_pos, k_pos, causal), index)


@dataclass(frozen=True)
class _Places:
    """Where the new positions stand and whom they see, and where their keys and values are written."""

    view: View
    """Queries at [W], or at [R, W] where the rows differ in length; keys from 0 to the last position of the longest."""
    index: Tensor | None
    """[R W] among the positions of all rows; None: all rows write to the last W positions."""


class _WideLayers:
    """See `Layers`: the decoder's layers, bound to one wide pass."""

    def __init__(self, model: InferenceModel, state: BlockState, places: _Places, watched: bool) -> None:
        self.layers = model.decoder
        self.state = state
        self.places = places
        self.watched = watched
        self.seen: list[Tensor] = []
        """The weights with which the last layer attends to the source, if they are `watched`."""

    def __call__(self, number: int, x: Tensor) -> Tensor:
        for connection, f in self.sublayers(number):
            x = connection(x, f)
        return x

    def sublayers(self, number: int) -> list[tuple[Connection, Sublayer]]:
        layer, own = self.layers[number], cast(InferenceAttention, self.layers[number].attention)
        return [
            (layer.attention_residual, lambda h: self._look_back(own, h, self.state.room[number])),
            (layer.cross_residual, lambda h: self._look_at_source(number, h, self.state.memory[number])),
            (layer.feed_forward_residual, layer.feed_forward),
        ]

    def _look_back(self, attention: InferenceAttention, x: Tensor, room: Tensor) -> Tensor:
        """Self-attention of [R, W, D]; `room` [2, R, capacity, KV heads x E] gets their keys and values."""
        view, (_, rows, capacity, width) = self.places.view, room.shape
        count, longest = x.shape[1], len(view.k_pos)
        queries, new = attention.query_key_value(x).split([attention.sizes[0], 2 * width], -1)
        queries = split_heads(queries, attention.num_heads)
        if attention.turns:
            queries = attention.positions.rotate(queries, view.q_pos)
            keys = attention.positions.rotate(split_heads(new[..., :width], attention.kv_heads), view.q_pos)
            new = torch.cat([merge_heads(keys), new[..., width:]], -1)
        new = new.unflatten(-1, (2, width)).movedim(2, 0)
        if self.places.index is None:
            room.narrow(2, longest - count, count).copy_(new)
        else:
            room.view(2, rows * capacity, width).index_copy_(1, self.places.index, new.flatten(1, 2))
        past = room.narrow(2, 0, longest).unflatten(-1, (attention.kv_heads, -1)).transpose(2, 3)
        if type(attention) is InferenceAttention and attention.group == 1 and not attention.biased:
            context = F.scaled_dot_product_attention(queries, past[0], past[1], view.mask)
        else:
            context = attention.mix(queries, past[0], past[1], view)
        return attention.output(merge_heads(context))

    def _look_at_source(self, number: int, x: Tensor, memory: Tensor) -> Tensor:
        """The positions of a block attend to the source as the beams of a sentence do."""
        cross, padding, count = self.layers[number].cross_attention, self.state.padding, x.shape[1]
        rows = x.flatten(0, 1)
        if self.watched and number == len(self.layers) - 1:
            self.seen.append(cross.weights(rows, memory, count, padding))
        return cross.attend(rows, memory, count, padding).view(x.shape)


def _projections(model: InferenceModel) -> Iterator[Projection]:
    """All products of the layers that are fused."""
    attentions = {layer.attention for layer in model.encoder} | {layer.attention for layer in model.decoder}
    for attention in attentions | {layer.cross_attention for layer in model.decoder}:
        yield from (part for part in vars(attention).values() if isinstance(part, Projection))
    yield from (*model.project_memories.each, model.project_memories.fused)
