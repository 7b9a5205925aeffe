"""The encoder-decoder Transformer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.core.shapes import Decoded, Memory, SrcIds, SrcKeep, TgtIds
from qkv.data.batch import Batch
from qkv.functional.masks import causal
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.gates import GatedLinear
from qkv.layers.attention.recording import watch_attention
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.position_offsets import Draw
from qkv.layers.positions import Positions
from qkv.models.base import Inference, MaxLengths, Model, Output
from qkv.models.draft_heads.base import DraftHead
from qkv.models.heads.base import Head, HeadContext, padded_source
from qkv.models.transformer.channels import auxiliary_losses
from qkv.models.transformer.decoder import Decoder
from qkv.models.transformer.encoder import Encoder


class Embedder(nn.Module):
    """Dropout(E[ids] sqrt(d_model) + positions), what a stack gets to read."""

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float, draw: Draw | None = None) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self._draw = draw
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        return self.dropout(self.positions.embed(self.tokens(ids), pos))

    def drawn(self, ids: Tensor) -> Tensor | None:
        """Random positions [B, T] for one pass of training; None: the true ones."""
        return self._draw(*ids.shape).to(ids.device) if self._draw is not None and self.training else None

    def for_inference(self) -> Callable[[Tensor, Tensor], Tensor]:
        """`forward` without dropout, its weights bound as plain tensors (see `Residual.for_inference`)."""
        tokens, embed = self.tokens.for_inference(), self.positions.embed
        return lambda ids, pos: embed(tokens(ids), pos)


class TransformerParts(NamedTuple):
    """What every model is put together from."""

    src_embedder: Embedder
    tgt_embedder: Embedder
    encoder: Encoder
    decoder: Decoder
    head: Head

    @property
    def d_model(self) -> int:
        return self.tgt_embedder.tokens.weight.shape[1]


class Transformer(Model):
    """Source ids to memory (`encode`), target prefix and memory to decoded vectors (`decode`), `head` on top."""

    kind = "transformer"

    def __init__(
        self, src_embedder: Embedder, tgt_embedder: Embedder, encoder: Encoder, decoder: Decoder, head: Head
    ) -> None:
        super().__init__()
        self.src_embedder = src_embedder
        self.tgt_embedder = tgt_embedder
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.draft_head: DraftHead | None = None

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tgt_embedder.tokens

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.src_embedder.positions.max_length, self.tgt_embedder.positions.max_length)

    def inference(self) -> Inference:
        from qkv.inference.static import StaticInference  # which need this file
        from qkv.inference.transformer import TransformerInference

        return Inference(
            steps=lambda attention: TransformerInference(self, attention),
            blocks=lambda attention: TransformerInference(self, attention),
            static=lambda attention, never: StaticInference(TransformerInference(self, attention), never),
            reason="the model is autoregressive, so it has no search refine: use beam, greedy, sample or mbr",
        )

    def encode(self, src: SrcIds, src_keep: SrcKeep, drawn: Tensor | None = None) -> Memory:
        """`drawn` [B, S] are random positions of training; without them a model in training draws its own."""
        pos = torch.arange(src.shape[1], device=src.device)
        drawn = self.src_embedder.drawn(src) if drawn is None else drawn
        context = AttentionContext(pos, pos, keep=src_keep, tokens=src, drawn=drawn)
        memory: Tensor = self.encoder(self.src_embedder(src, context.q_position_ids), context)
        return memory

    def decode(self, tgt_in: TgtIds, memory: Memory, src_keep: SrcKeep, drawn: Tensor | None = None) -> Decoded:
        """One parallel pass over all positions; position t sees the target up to t and the whole source.

        Targets are padded on the right, so the causal mask alone hides the padding.
        """
        pos = torch.arange(tgt_in.shape[1], device=tgt_in.device)
        src_pos = torch.arange(memory.shape[1], device=memory.device)
        real = _until_the_last(tgt_in != self.tgt_embedder.tokens.pad)
        context = AttentionContext(
            pos, pos, predicate=causal, q_keep=real, drawn=self.tgt_embedder.drawn(tgt_in) if drawn is None else drawn
        )
        cross_context = AttentionContext(pos, src_pos, keep=src_keep)
        decoded: Tensor = self.decoder(
            self.tgt_embedder(tgt_in, context.q_position_ids), context, memory, cross_context
        )
        return decoded

    def forward(self, batch: Batch) -> Output:
        head = self.head
        # Of a layer that several depths share, all passes are watched.
        shared, depths = len(self.decoder.layers) == 1, head.chosen.depths(self.decoder.num_layers)
        layers = None if shared else [depth + 1 for depth in depths]
        with self.watch_cross_attention(layers if head.needs_attention else []) as watched:
            memory, states = self._pass(batch.src, batch.src_keep, batch.tgt_in)
        src, attention = None, None
        if head.needs_source:
            src = padded_source(batch.src, batch.src_keep)[:, None].expand(-1, states.shape[1], -1)
        if head.needs_attention:
            attention = head.chosen.mean([watched[depth] for depth in depths] if shared else watched)
        pointed = head.point(states, head.keys(memory)) if head.needs_memory else None
        if gates := [module for module in self.modules() if isinstance(module, GatedLinear)]:
            auxiliary_losses.say(torch.stack([gate.cost() for gate in gates]).sum().expand(len(batch)))
        return Output(states, HeadContext(src, attention, pointed))

    @contextmanager
    def watch_cross_attention(self, layers: Sequence[int] | None = None) -> Iterator[list[Tensor]]:
        own = list(dict.fromkeys(layer.cross_attention for layer in self.decoder.in_order()))
        chosen = own if layers is None else [own[number - 1] for number in layers]
        found: list[Tensor] = []
        with ExitStack() as stack:
            watched = [stack.enter_context(watch_attention(attention)) for attention in chosen]
            yield found
        found += [self.decoder.wiring.fold(weights) for passes in watched for weights in passes]

    def states(self, src: SrcIds, src_keep: SrcKeep, tgt_in: TgtIds) -> Decoded:
        """What the head reads, for all target positions."""
        return self._pass(src, src_keep, tgt_in)[1]

    def _pass(self, src: SrcIds, src_keep: SrcKeep, tgt_in: TgtIds) -> tuple[Memory, Decoded]:
        """Random positions of training are drawn once for both sides: token i stands at the same place on each."""
        drawn = self.src_embedder.drawn(src if src.shape[1] >= tgt_in.shape[1] else tgt_in)
        if drawn is None:
            memory = self.encode(src, src_keep)
            return memory, self.decode(tgt_in, memory, src_keep)
        memory = self.encode(src, src_keep, drawn[:, : src.shape[1]])
        return memory, self.decode(tgt_in, memory, src_keep, drawn[:, : tgt_in.shape[1]])


def require_transformer(model: Model, what: str) -> Transformer:
    """`model`, if it is a Transformer; else raises UsageError: `what` is for the Transformer alone."""
    if not isinstance(model, Transformer):
        raise UsageError(f"{what} is for a Transformer, not for a model of the kind {model.kind}")
    return model


def _until_the_last(real: Tensor) -> Tensor:
    """[B, T]: True up to the last real token of each row, even where an objective masks a token before it."""
    return real.flip(1).cumsum(1).flip(1) > 0
