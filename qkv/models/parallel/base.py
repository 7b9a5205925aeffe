"""Non-autoregressive Transformers: no causal mask, all output positions in one pass."""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor, nn

from qkv.core.devices import surely_all, widest_float
from qkv.core.errors import QkvError
from qkv.core.shapes import Decoded, Memory, SrcIds, SrcKeep, TgtIds
from qkv.layers.attention.context import AttentionContext
from qkv.models.base import Inference, MaxLengths
from qkv.models.heads.linear import LinearHead
from qkv.models.transformer.model import Embedder, Transformer, TransformerParts
from qkv.text.special import SPECIAL

CopyIndices = Callable[[Tensor, Tensor, int], Tensor]
"""(source lengths [B], canvas lengths [B], canvas width) -> which source position each canvas position copies."""


class EncodedSource(NamedTuple):
    """A batch of encoded sources."""

    src: Tensor
    keep: Tensor
    memory: Tensor

    @property
    def lengths(self) -> Tensor:
        """[B], END included."""
        return self.keep.sum(dim=1)

    def repeated(self, times: int) -> "EncodedSource":
        """Each source repeated `times` times."""
        return self if times == 1 else EncodedSource(*(part.repeat_interleave(times, 0) for part in self))


class Opening(nn.Module):
    """The decoder input at open positions of a canvas. This base class: the embedding of MASK."""

    def forward(self, embedder: Embedder, src_embedder: Embedder, tgt_in: Tensor, source: EncodedSource) -> Tensor:
        return embedder.tokens(tgt_in)


class CopiedSource(Opening):
    """The source embedding at the position given by `indices`; `with_end`: END may be copied too."""

    def __init__(self, indices: CopyIndices, with_end: bool) -> None:
        super().__init__()
        self.indices = indices
        self.with_end = with_end

    def forward(self, embedder: Embedder, src_embedder: Embedder, tgt_in: Tensor, source: EncodedSource) -> Tensor:
        lengths = source.lengths if self.with_end else (source.lengths - 1).clamp(min=1)
        index = self.indices(lengths, (tgt_in != SPECIAL.pad).sum(dim=1), tgt_in.shape[1])
        return src_embedder.tokens(source.src.gather(1, index))


class LearnedQuery(Opening):
    """One learned vector at every position."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(d_model))

    def forward(self, embedder: Embedder, src_embedder: Embedder, tgt_in: Tensor, source: EncodedSource) -> Tensor:
        return self.query.expand(*tgt_in.shape, -1)


class ParallelModel(Transformer):
    """Source and canvas to decoded vectors.

    A canvas [B, T] holds ids: MASK where it is open, a token where it is known, padding after its end. Every
    position attends to the whole canvas and the whole source, so all open ones are filled at once.
    """

    head: LinearHead

    def __init__(self, parts: TransformerParts, opening: Opening) -> None:
        super().__init__(*parts)
        self.opening = opening

    def read(self, src: SrcIds, src_keep: SrcKeep) -> EncodedSource:
        return EncodedSource(src, src_keep, self.encode(src, src_keep))

    def fill(self, tgt_in: TgtIds, source: EncodedSource) -> Decoded:
        """Decoded vectors of all positions; those of padding are undefined."""
        keep = tgt_in != SPECIAL.pad
        embedder = self.tgt_embedder
        x = self.opening(embedder, self.src_embedder, tgt_in, source)
        known = keep & (tgt_in != SPECIAL.mask)
        if not surely_all(~known):
            x = torch.where(known[..., None], embedder.tokens(tgt_in), x)
        pos = torch.arange(tgt_in.shape[1], device=tgt_in.device)
        src_pos = torch.arange(source.memory.shape[1], device=tgt_in.device)
        context = AttentionContext(pos, pos, keep=keep, tokens=tgt_in, drawn=embedder.drawn(tgt_in))
        cross_context = AttentionContext(pos, src_pos, keep=source.keep)
        placed = embedder.dropout(embedder.positions.embed(x, context.q_position_ids))
        decoded: Tensor = self.decoder(placed, context, source.memory, cross_context)
        return decoded

    def inference(self) -> Inference:
        from qkv.inference.whole import fused  # which needs this file

        return Inference(
            parallel=lambda: fused(self),
            reason=f"the model is of the kind {self.kind}, so it has no next token: use refine",
        )

    def states(self, src: SrcIds, src_keep: SrcKeep, tgt_in: TgtIds) -> Decoded:
        return self.fill(tgt_in, self.read(src, src_keep))

    def decode(self, tgt_in: TgtIds, memory: Memory, src_keep: SrcKeep, drawn: Tensor | None = None) -> Decoded:
        raise QkvError(f"a model of kind {self.kind} has no next token: it fills a canvas (read and fill)")


def stretched(src_length: int, factor: float, extra: int = 0) -> int:
    """Positions of a canvas; never below 1."""
    return max(1, ceil(factor * src_length) + extra)


class StretchedModel(ParallelModel):
    """The length of its canvas follows from the source: ceil(factor |X|) + extra positions, END included."""

    def __init__(self, parts: TransformerParts, opening: Opening, factor: float, extra: int = 0) -> None:
        super().__init__(parts, opening)
        self.factor = factor
        self.extra = extra

    @property
    def limits(self) -> MaxLengths:
        """Its canvas must fit too."""
        reads, writes = super().limits
        if reads is None or writes is None:
            return MaxLengths(reads, writes)
        fits = (length for length in range(reads, 0, -1) if stretched(length, self.factor, self.extra) <= writes)
        return MaxLengths(next(fits, 1), writes)

    def canvas_lengths(self, src_lengths: Tensor) -> Tensor:
        """For sources of these lengths [B]: `stretched`, in double precision as there."""
        return (
            torch.ceil(src_lengths.to(widest_float(src_lengths.device)) * self.factor).long().clamp(min=1 - self.extra)
            + self.extra
        )


def open_canvas(lengths: Tensor, width: int | None = None) -> Tensor:
    """[B] -> [B, T]: open canvases of these lengths. T is `width`, or that of the longest."""
    columns = int(lengths.max()) if width is None else width
    inside = torch.arange(columns, device=lengths.device) < lengths[:, None]
    return torch.where(inside, SPECIAL.mask, SPECIAL.pad)
