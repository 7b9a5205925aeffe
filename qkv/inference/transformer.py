"""The Transformer without gradients: `encode` a source once, then `extend` the output by one position or by several.

Keys and values of decoded positions stay in a KV cache. A search extends it by one token per step; speculative decoding
verifies W tokens in one pass and truncates the rejected ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.functional.masks import causal
from qkv.inference.cache import DecoderState, KVCache, SourceKeys
from qkv.inference.layers import (
    DecoderPass,
    EncoderPass,
    FusedDecoderLayer,
    FusedEncoderLayer,
    SourceProjections,
    additive,
    copied_by_columns,
    lay_by_columns,
    padding_mask,
    uneven_heads,
)
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.models.base import Output
from qkv.models.heads.base import NO_CONTEXT, HeadContext, padded_source
from qkv.models.transformer.decoder import Decoder
from qkv.models.transformer.encoder import Encoder
from qkv.models.transformer.model import Transformer


class FusedEncoder:
    """An `Encoder` without gradients. It copies weights: make a new one after they have changed."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        # A shared layer is fused once.
        made = {layer: FusedEncoderLayer(layer) for layer in encoder.in_order()}
        self.layers = [made[layer] for layer in encoder.in_order()]
        lay_by_columns(*(layer.attention for layer in made.values()))

    def __call__(self, x: Tensor, context: AttentionContext) -> Tensor:
        """Embedded source [B, S, D] to memory [B, S, M]."""
        layers = EncoderPass(self.layers, Block(context, x.shape[1], padding_mask(context.keep, x)))
        memory = self.encoder.run(self.encoder.depth.flat(x), layers, context)
        return memory.view(*x.shape[:2], -1)


class FusedDecoder:
    """A `Decoder` without gradients. It copies weights: make a new one after they have changed."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.wiring, self.depth = decoder, decoder.wiring, decoder.depth
        made = {layer: FusedDecoderLayer(layer) for layer in decoder.in_order()}
        self.layers = [made[layer] for layer in decoder.in_order()]
        self.sources = SourceProjections(decoder)
        attentions = [part for layer in made.values() for part in (layer.attention, layer.cross_attention)]
        lay_by_columns(*attentions, self.sources)

    def whole(self, x: Tensor, context: AttentionContext, memory: Tensor, cross_context: AttentionContext) -> Tensor:
        """All positions [B, T, D] at once, as `Decoder.forward`."""
        padding = padding_mask(self.wiring.look(cross_context).keep, x)
        memories = self.wiring.memories(memory)
        sources = SourceKeys(self.sources(memories), padding, heads=self.sources.own_heads)
        mask = None if context.mask is None else additive(context.mask, x)
        nothing: Sequence[None] = [None] * len(self.layers)
        block = Block(context, x.shape[1], mask)
        return self.run(x, DecoderPass(self.layers, block, nothing, sources.crossings(block, nothing)))

    def run(self, x: Tensor, layers: DecoderPass) -> Tensor:
        """[R, W, D] through the layers and what follows them."""
        return self.decoder.run(self.depth.flat(x), layers, layers.block.context).view(x.shape)


MOST_KEPT = 1024
"""The causal mask is cached up to this many positions."""


class TransformerInference:
    """It copies the weights as they are now: make a new one after they have changed.

    Args:
        model: An autoregressive model.
        attention: Give the cross-attention of the last layer with every output, whatever the head needs.
    """

    def __init__(self, model: Transformer, attention: bool = False) -> None:
        self.attention = attention or model.head.needs_attention
        model = copied_by_columns(model)
        self.head = model.head.by_columns()
        self.encoder = FusedEncoder(model.encoder)
        self.decoder = FusedDecoder(model.decoder)
        self.src_embed, self.tgt_embed = (side.for_inference() for side in (model.src_embedder, model.tgt_embedder))
        self.tgt_limit = model.limits.tgt
        first = next(model.decoder.in_order())
        self.cross_attention = first.cross_attention
        own = [layer.attention for layer in model.decoder.in_order()]
        self.cache_shape = (2 * max(attention.kv_heads for attention in own), 0, own[0].head_width)
        self.cache_heads = uneven_heads(own)
        depth = len(self.decoder.layers)
        self.watched: Sequence[int] = ()
        if self.attention:
            self.watched = range(depth) if self.decoder.depth.ends_early else self.head.chosen.depths(depth)
        self._range = torch.arange(0)
        self._causal = torch.empty(0, 0)

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory [B, S, M]."""
        pos = self._positions(src.shape[1], src.device)
        context = AttentionContext(pos, pos, keep=src_keep, tokens=src)
        return self.encoder(self.src_embed(src, pos), context)

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        """Read the sources [B, S]."""
        return self.begin(self.encode(src, src_keep), src, src_keep, beams)

    def begin(self, memory: Tensor, src: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        """Nothing decoded yet; `beams` rows for each sentence of `memory`."""
        padding = padding_mask(self.decoder.wiring.spread(src_keep), memory)
        sources = SourceKeys(
            self.decoder.sources(self.decoder.wiring.memories(memory)),
            padding,
            padded_source(src, src_keep) if self.head.needs_source else None,
            self.head.keys(memory) if self.head.needs_memory else None,
            heads=self.decoder.sources.own_heads,
        )
        rows = len(memory) * beams
        shape, width = (len(self.decoder.layers), rows), self.cross_attention.carried_width(sources.key_value.shape[3])
        carried = memory.new_zeros(*shape, self.cross_attention.num_heads, 0, width) if width else None
        cache = KVCache(memory.new_zeros(*shape, *self.cache_shape), carried, self.cache_heads)
        return DecoderState(cache, (0,) * rows, sources)

    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Output, DecoderState]:
        """The next W tokens of each row [R, W] to what the head reads."""
        width = tokens.shape[1]
        cache, end = state.writable(width), max(state.lengths) + width
        block = self._block(state, width, end, cache.tensor)
        return self.passed(tokens, block, cache, end, state.sources), state.after(cache, width)

    def passed(self, tokens: Tensor, block: Block, cache: KVCache, end: int, sources: SourceKeys) -> Output:
        """The same for a block of positions, whose keys and values go to the first `end` positions of the cache."""
        decoder = self.decoder
        past, carried = cache.until(end)
        crossings = sources.crossings(block, carried)
        layers = DecoderPass(decoder.layers, block, past, crossings, self.watched, self.head.chosen)
        decoded = decoder.run(self.tgt_embed(tokens, block.context.q_pos), layers)
        return Output(decoded, self._context(sources, layers, tokens, decoded))

    def _context(self, sources: SourceKeys, layers: DecoderPass, tokens: Tensor, decoded: Tensor) -> HeadContext:
        if not (self.attention or self.head.needs_source):
            return NO_CONTEXT
        attention = self.decoder.wiring.fold(layers.attended()) if self.attention else None
        pointed = None
        if sources.pointed_at is not None:
            # The rows of a sentence stand together, so they point at one copy of its keys.
            rows = decoded.reshape(len(sources.pointed_at), -1, decoded.shape[-1])
            pointed = self.head.point(rows, sources.pointed_at).view(*tokens.shape, -1)
        return HeadContext(sources.ids_of(tokens), attention, pointed)

    def _block(self, state: DecoderState, width: int, end: int, like: Tensor) -> Block:
        pos = self._positions(end, like.device)
        if state.level and width == 1:
            return Block(AttentionContext(pos[-1:], pos), 1)
        if state.level:
            return Block(AttentionContext(pos[end - width :], pos, causal), width, self._causal_mask(end, width, like))
        index = torch.tensor(state.lengths, device=like.device)[:, None] + pos[:width]
        mask = additive(pos <= index[..., None], like)[:, None]
        # A short row is padded to the width of the others, perhaps beyond the model's last position: what it writes
        # there is never attended to.
        q_pos = index if self.tgt_limit is None else index.clamp_max(self.tgt_limit - 1)
        return Block(AttentionContext(q_pos, pos, causal), width, mask, index)

    def _positions(self, count: int, device: torch.device) -> Tensor:
        if len(self._range) < count or self._range.device != device:
            self._range = torch.arange(2 * count, device=device)
        return self._range[:count]

    def _causal_mask(self, end: int, width: int, like: Tensor) -> Tensor:
        """[W, end]: -inf where a key (column) follows its query (one of the last W positions), else 0."""
        if end > MOST_KEPT:
            return like.new_full((width, end), -torch.inf).triu_(1 + end - width)
        known = self._causal
        if len(known) < end or known.dtype != like.dtype or known.device != like.device:
            self._causal = known = like.new_full((2 * end, 2 * end), -torch.inf).triu_(1)
        return known[end - width : end, :end]
