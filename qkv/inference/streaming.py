"""A Transformer that reads its source token by token, and writes while it reads."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.masks import causal
from qkv.inference.cache import DecoderState
from qkv.inference.layers import EncoderPass
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.models.base import Output
from qkv.models.transformer.model import Transformer


@dataclass(frozen=True)
class StreamState:
    """What has been read and written of one sentence, as a value."""

    read: Tensor
    """[L, 1, 2 KV heads, S, E], keys and values of the encoder's self-attention."""
    decoder: DecoderState

    @property
    def length(self) -> int:
        """How many source tokens have been read."""
        return self.read.shape[3]


class StreamingInference:
    """For a model whose encoder does not look ahead, whose cross-attention `streams`, and whose head reads no source.

    It copies the weights.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = TransformerInference(model)
        own = next(model.encoder.in_order()).attention
        shape = (model.encoder.num_layers, 1, 2 * own.kv_heads, 0, own.head_width)
        self.nothing = own.key.weight.detach().new_zeros(shape)

    def start(self, tokens: Tensor, last: bool) -> StreamState:
        """Read the first source tokens [1, W]; `last`: there are no others."""
        memory, read = self._encode(tokens, self.nothing)
        decoder = self.model.begin(memory, tokens, torch.ones_like(tokens, dtype=torch.bool))
        return StreamState(read, replace(decoder, sources=replace(decoder.sources, complete=last)))

    def read(self, tokens: Tensor, state: StreamState, last: bool) -> StreamState:
        """Read more source tokens [1, W]."""
        memory, read = self._encode(tokens, state.read)
        known, decoder = state.decoder.sources, self.model.decoder
        new = decoder.sources(decoder.wiring.memories(memory))
        sources = replace(known, key_value=torch.cat([known.key_value, new], dim=3), complete=last)
        return StreamState(read, replace(state.decoder, sources=sources))

    def write(self, token: Tensor, state: StreamState) -> tuple[Output, StreamState]:
        """Append an output token [1], the start symbol first, to what the head reads; raises `SourceNeeded`."""
        output, decoder = self.model.extend(token[:, None], state.decoder)
        return output, replace(state, decoder=decoder)

    def _encode(self, tokens: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Memory [1, W, M] of new tokens, and the cache with their keys and values."""
        width, encoder = tokens.shape[1], self.model.encoder
        cache = F.pad(past, (0, 0, 0, width))
        pos = torch.arange(cache.shape[3], device=tokens.device)
        context = AttentionContext(pos[-width:], pos, causal)
        layers = EncoderPass(encoder.layers, Block(context, width), cache.unbind(0))
        embedded = self.model.src_embed(tokens, context.q_pos)
        memory = encoder.encoder.run(encoder.encoder.depth.flat(embedded), layers, context)
        return memory.view(1, width, -1), cache
