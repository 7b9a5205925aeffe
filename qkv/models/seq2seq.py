"""The encoder-decoder Transformer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.masks import causal
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.positions import Positions
from qkv.layers.view import View
from qkv.models.decoder import Decoder
from qkv.models.encoder import Encoder
from qkv.models.head import LinearHead
from qkv.shapes import Decoded, Memory, SrcIds, SrcKeep, TgtIds


class Embedder(nn.Module):
    """Dropout(E[ids] sqrt(d_model) + positions), what a stack gets to read."""

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        return self.dropout(self.positions.embed(self.tokens(ids), pos))

    def for_one_token(self) -> Callable[[Tensor, int], Tensor]:
        """The same without dropout for one token a row [R] at one position (see `Residual.for_inference`)."""
        weight, scale, embed_one = self.tokens.weight, self.tokens.scale, self.positions.embed_one
        return lambda ids, at: embed_one(F.embedding(ids, weight) * scale, at)


class Seq2Seq(nn.Module):
    """Source ids to memory (`encode`), target prefix and memory to decoded vectors (`decode`), `head` on top."""

    def __init__(
        self, src_embedder: Embedder, tgt_embedder: Embedder, encoder: Encoder, decoder: Decoder, head: LinearHead
    ) -> None:
        super().__init__()
        self.src_embedder = src_embedder
        self.tgt_embedder = tgt_embedder
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def encode(self, src: SrcIds, src_keep: SrcKeep) -> Memory:
        pos = torch.arange(src.shape[1], device=src.device)
        memory: Tensor = self.encoder(self.src_embedder(src, pos), View(pos, pos, keep=src_keep))
        return memory

    def decode(self, tgt_in: TgtIds, memory: Memory, src_keep: SrcKeep) -> Decoded:
        """One parallel pass over all positions; position t sees the target up to t and the whole source.

        Padding stands behind the real tokens, so the causal mask alone hides it from them.
        """
        pos = torch.arange(tgt_in.shape[1], device=tgt_in.device)
        src_pos = torch.arange(memory.shape[1], device=memory.device)
        view = View(pos, pos, predicate=causal)
        cross_view = View(pos, src_pos, keep=src_keep)
        decoded: Tensor = self.decoder(self.tgt_embedder(tgt_in, pos), view, memory, cross_view)
        return decoded

    def forward(self, src: SrcIds, src_keep: SrcKeep, tgt_in: TgtIds) -> Decoded:
        return self.decode(tgt_in, self.encode(src, src_keep), src_keep)
