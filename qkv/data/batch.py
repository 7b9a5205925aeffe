"""The tensors of a batch, padded on the right.

src     = ids </s>          tgt_in  = <s> ids
tgt_out = ids </s>          tgt_weight = 1 on tgt_out, 0 on padding
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from qkv.core.devices import moved
from qkv.core.shapes import SrcIds, SrcKeep, TgtIds, TgtWeight
from qkv.text.special import SpecialIds


@dataclass(frozen=True, eq=False)
class Batch:
    """A training batch."""

    smaller_examples = "lower data.max_src_tokens and data.max_tgt_tokens"

    src: SrcIds
    src_keep: SrcKeep
    """True on tokens, False on padding."""
    tgt_in: TgtIds
    """The decoder input: `tgt_out` shifted right."""
    tgt_out: TgtIds
    """The labels."""
    tgt_weight: TgtWeight
    examples: list[int]
    """Which pairs of the store these are, for diagnosis."""
    alignment: Tensor | None = None
    """[B, T, S]: where each target token should look, if the data has alignments; see `alignment_matrices`."""
    found: tuple[Tensor, Tensor] | None = None
    """What `counted` returns, if it was found before the batch left the CPU; a device then need not be waited for."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def counted(self) -> tuple[Tensor, Tensor]:
        """Rows and columns of the target tokens that count: `states[batch.counted]` is [N, D]."""
        if self.found is not None:
            return self.found
        rows, columns = (self.tgt_weight > 0).nonzero(as_tuple=True)
        return rows, columns

    @property
    def num_tgt_tokens(self) -> int:
        """Tokens of `tgt_out`, end tokens included."""
        return int((self.tgt_weight > 0).sum())

    @property
    def padding(self) -> float:
        """The fraction of positions of both sides that is padding."""
        positions = self.src.numel() + self.tgt_out.numel()
        return 1 - (int(self.src_keep.sum()) + self.num_tgt_tokens) / max(positions, 1)

    @property
    def size(self) -> str:
        """For a message."""
        return f"{len(self)} pairs up to {max(self.src.shape[1], self.tgt_in.shape[1])} tokens long"

    def to(self, device: torch.device | str) -> Self:
        """The same batch on `device`."""
        there = self.each(lambda tensor: moved(tensor, device), self.examples)
        if there.src.device == self.src.device:
            return there
        rows, columns = self.counted
        return replace(there, found=(moved(rows, device), moved(columns, device)))

    def split(self) -> tuple[Self, Self]:
        """Two batches of half the rows, for when one does not fit in memory."""
        if len(self) < 2:
            raise ValueError("a batch of fewer than two pairs cannot be split")
        middle = (len(self) + 1) // 2
        first = self.each(lambda tensor: tensor[:middle], self.examples[:middle])
        return first, self.each(lambda tensor: tensor[middle:], self.examples[middle:])

    def each(self, change: Callable[[Tensor], Tensor], examples: list[int]) -> Self:
        """The batch of the changed tensors, whose rows are `examples`."""
        return replace(
            self,
            src=change(self.src),
            src_keep=change(self.src_keep),
            tgt_in=change(self.tgt_in),
            tgt_out=change(self.tgt_out),
            tgt_weight=change(self.tgt_weight),
            examples=examples,
            alignment=None if self.alignment is None else change(self.alignment),
            found=None,
        )


def collate(
    src_ids: Sequence[Sequence[int]],
    tgt_ids: Sequence[Sequence[int]],
    special_src: SpecialIds,
    special_tgt: SpecialIds,
    pairs: Sequence[int],
) -> Batch:
    """A batch from the ordinary ids of its pairs; the special ids are added here."""
    src, src_keep = padded([[*ids, special_src.eos] for ids in src_ids], special_src.pad)
    tgt_in, _ = padded([[special_tgt.bos, *ids] for ids in tgt_ids], special_tgt.pad)
    tgt_out, tgt_keep = padded([[*ids, special_tgt.eos] for ids in tgt_ids], special_tgt.pad)
    return Batch(src, src_keep, tgt_in, tgt_out, tgt_keep.float(), list(pairs))


def padded(rows: list[list[int]], pad: int) -> tuple[Tensor, Tensor]:
    """The rows as one padded matrix, and the mask of real tokens. No rows give shape [0, 1]."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    width = int(lengths.max(initial=1))
    keep = np.arange(width) < lengths[:, None]
    ids = np.full(keep.shape, pad, dtype=np.int64)
    ids[keep] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]) if rows else 0
    return torch.from_numpy(ids), torch.from_numpy(keep)
