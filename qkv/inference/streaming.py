"""A Transformer that reads its source token by token, and writes while it reads."""

from dataclasses import dataclass, replace
from typing import Protocol

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

    length: int
    """How many source tokens have been read."""
    read: Tensor
    """What the encoder needs to read on."""
    decoder: DecoderState


class StreamingEncoder(Protocol):
    """Reads a source in pieces."""

    @property
    def nothing(self) -> Tensor:
        """What has been read before the first token."""
        ...

    def read(self, tokens: Tensor, past: Tensor, last: bool) -> tuple[Tensor, Tensor]:
        """New source tokens [1, W], the `last` ones or not, and what has been read before them.

        Returns the memory [1, S, M] of the positions that no later token can change, but those that were given
        before, and what has been read.
        """
        ...


class StreamingInference:
    """For a model whose cross-attention `streams` and whose head reads no source; it copies the weights.

    Args:
        model: A Transformer.
        lookahead: By how many tokens its encoder looks ahead, in all layers together.
    """

    def __init__(self, model: Transformer, lookahead: int = 0) -> None:
        self.model = TransformerInference(model)
        self.encoder: StreamingEncoder = (
            LookaheadEncoder(self.model, lookahead) if lookahead else CausalEncoder(model, self.model)
        )

    def start(self, tokens: Tensor, last: bool) -> StreamState:
        """Read the first source tokens [1, W], more than the encoder looks ahead; `last`: there are no others."""
        memory, read = self.encoder.read(tokens, self.encoder.nothing, last)
        known = tokens[:, : memory.shape[1]]
        decoder = self.model.begin(memory, known, torch.ones_like(known, dtype=torch.bool))
        return StreamState(tokens.shape[1], read, replace(decoder, sources=replace(decoder.sources, complete=last)))

    def read(self, tokens: Tensor, state: StreamState, last: bool) -> StreamState:
        """Read more source tokens [1, W]."""
        memory, read = self.encoder.read(tokens, state.read, last)
        known, decoder = state.decoder.sources, self.model.decoder
        new = decoder.sources(decoder.wiring.memories(memory))
        sources = replace(known, key_value=torch.cat([known.key_value, new], dim=3), complete=last)
        return StreamState(state.length + tokens.shape[1], read, replace(state.decoder, sources=sources))

    def write(self, token: Tensor, state: StreamState) -> tuple[Output, StreamState]:
        """Append an output token [1], the start symbol first, to what the head reads; raises `SourceNeeded`."""
        output, decoder = self.model.extend(token[:, None], state.decoder)
        return output, replace(state, decoder=decoder)


class CausalEncoder:
    """An encoder that does not look ahead: keys and values [L, 1, 2 KV heads, S, E] of what was read are kept."""

    def __init__(self, model: Transformer, inference: TransformerInference) -> None:
        self.model = inference
        own = [layer.attention for layer in model.encoder.in_order()]
        self.heads = [attention.kv_heads for attention in own]
        shape = (model.encoder.num_layers, 1, 2 * max(self.heads), 0, own[0].head_width)
        self.nothing = own[0].key.weight.detach().new_zeros(shape)

    def read(self, tokens: Tensor, past: Tensor, last: bool) -> tuple[Tensor, Tensor]:
        width, encoder = tokens.shape[1], self.model.encoder
        cache = F.pad(past, (0, 0, 0, width))
        pos = torch.arange(cache.shape[3], device=tokens.device)
        context = AttentionContext(pos[-width:], pos, causal)
        past_of = [layer[:, : 2 * heads] for layer, heads in zip(cache.unbind(0), self.heads, strict=True)]
        layers = EncoderPass(encoder.layers, Block(context, width), past_of)
        embedded = self.model.src_embed(tokens, context.q_pos)
        memory = encoder.encoder.run(encoder.encoder.depth.flat(embedded), layers, context)
        return memory.view(1, width, -1), cache


class LookaheadEncoder:
    """An encoder whose positions depend on the next `lookahead` tokens: a position is known when these are read.

    The source so far [1, S] is kept and read again with each piece.
    """

    def __init__(self, model: TransformerInference, lookahead: int) -> None:
        self.model = model
        self.lookahead = lookahead
        self.nothing = torch.zeros(1, 0, dtype=torch.long)

    def read(self, tokens: Tensor, past: Tensor, last: bool) -> tuple[Tensor, Tensor]:
        src = torch.cat([past.to(tokens.device), tokens], dim=1)
        given = max(past.shape[1] - self.lookahead, 0)
        known = src.shape[1] if last else max(src.shape[1] - self.lookahead, given)
        memory = self.model.encode(src, torch.ones_like(src, dtype=torch.bool))
        return memory[:, given:known], src
