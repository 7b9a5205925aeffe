"""A causal language model without gradients: its tokens' keys and values stay in the KV cache."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.functional.masks import causal
from qkv.inference.cache import DecoderState, KVCache, SourceKeys
from qkv.inference.layers import EncoderPass, additive
from qkv.inference.transformer import FusedEncoder
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.layers.frozen import frozen_copy
from qkv.models.base import Output
from qkv.models.language.causal import CausalLM


@dataclass(frozen=True)
class _NoSource(SourceKeys):
    """There is nothing to select of."""

    def select(self, sentences: Tensor) -> "_NoSource":
        return self


class CausalInference:
    """It copies the weights as they are now: make a new one after they have changed. Sources are not read."""

    def __init__(self, model: CausalLM) -> None:
        model = frozen_copy(model)
        self.head = model.head
        self.stack = FusedEncoder(model.stack)
        self.embed = model.embedder.for_inference()
        first = next(model.stack.in_order()).attention
        self.shape = (len(self.stack.layers), 2 * first.kv_heads, first.head_width)
        self.like = first.key.weight

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        """Nothing is said yet; `src` [B, S] gives only the number of rows."""
        layers, heads, width = self.shape
        rows = len(src) * beams
        cache = KVCache(self.like.new_zeros(layers, rows, heads, 0, width))
        return DecoderState(cache, (0,) * rows, _NoSource(self.like.new_zeros(0), None))

    def extend(self, tokens: Tensor, state: DecoderState) -> tuple[Output, DecoderState]:
        """The next W tokens of each row [R, W] to the states of their positions."""
        width, encoder = tokens.shape[1], self.stack.encoder
        cache, end = state.writable(width), state.lengths[0] + width
        pos = torch.arange(end, device=tokens.device)
        context = AttentionContext(pos[end - width :], pos, causal)
        mask = None if width == 1 else additive(pos <= context.q_pos[:, None], cache.tensor)
        past, _ = cache.until(end)
        layers = EncoderPass(self.stack.layers, Block(context, width, mask), past)
        x = self.embed(tokens, context.q_pos)
        states = encoder.run(encoder.depth.flat(x), layers, context).view(x.shape)
        return Output(states), state.after(cache, width)
