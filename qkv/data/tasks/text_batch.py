"""The tensors of a batch of texts, and texts packed into rows.

src     = <s> ids </s>
tgt_in  = <s> ids           tgt_out = ids </s>

tgt_weight is 0 on the </s> of a piece of a text that continues behind it: nothing ends there.

A packed row holds several texts one after the other: `segments` says which one a position belongs to, and
`positions` starts again at 0 with each of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from qkv.data.batch import Batch, padded
from qkv.text.special import SpecialIds


@dataclass(frozen=True, eq=False)
class TextBatch(Batch):
    """A batch of texts: for a causal model the target sides, for an encoder the source side."""

    smaller_examples = "lower data.max_tokens"

    segments: Tensor | None = None
    """[B, T], which text of its row a position of `tgt_in` belongs to; None: each row is one text."""
    positions: Tensor | None = None
    """[B, T], its place in the text."""

    @property
    def size(self) -> str:
        return f"{len(self)} rows of up to {self.tgt_in.shape[1]} tokens"

    def each(self, change: Callable[[Tensor], Tensor], examples: list[int]) -> Self:
        segments, positions = (None if part is None else change(part) for part in (self.segments, self.positions))
        return replace(super().each(change, examples), segments=segments, positions=positions)


def collate_texts(
    ids: Sequence[Sequence[int]], special: SpecialIds, examples: Sequence[int], ends: Sequence[bool] | None = None
) -> TextBatch:
    """Each text is a row of its own; `ends` says which ones end where their tokens do (None: all)."""
    src, src_keep = padded([[special.bos, *own, special.eos] for own in ids], special.pad)
    tgt_in, _ = padded([[special.bos, *own] for own in ids], special.pad)
    tgt_out, keep = padded([[*own, special.eos] for own in ids], special.pad)
    weight = keep if ends is None else _weights([[own] for own in ids], [[end] for end in ends])
    return TextBatch(src, src_keep, tgt_in, tgt_out, weight.float(), list(examples))


def collate_packed(
    rows: Sequence[Sequence[Sequence[int]]],
    special: SpecialIds,
    examples: Sequence[int],
    ends: Sequence[Sequence[bool]] | None = None,
) -> TextBatch:
    """Each row holds several texts; `examples` are the first ones of the rows. There is no source side."""
    tgt_in, _ = padded([[i for own in row for i in (special.bos, *own)] for row in rows], special.pad)
    tgt_out, keep = padded([[i for own in row for i in (*own, special.eos)] for row in rows], special.pad)
    lengths = [[1 + len(own) for own in row] for row in rows]
    segments, _ = padded([[n for n, length in enumerate(row, start=1) for _ in range(length)] for row in lengths], 0)
    positions, _ = padded([[place for length in row for place in range(length)] for row in lengths], 0)
    nothing = torch.empty(len(rows), 0, dtype=torch.long)
    weight = (keep if ends is None else _weights(rows, ends)).float()
    return TextBatch(
        nothing, nothing.bool(), tgt_in, tgt_out, weight, list(examples), segments=segments, positions=positions
    )


def _weights(rows: Sequence[Sequence[Sequence[int]]], ends: Sequence[Sequence[bool]]) -> Tensor:
    """1 on each token, and on the </s> of a text that ends; 0 elsewhere."""
    both = [zip(row, own, strict=True) for row, own in zip(rows, ends, strict=True)]
    weights, _ = padded([[i for ids, end in row for i in (*[1] * len(ids), int(end))] for row in both], 0)
    return weights
