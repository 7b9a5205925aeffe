"""The batches of prepared texts: one text a row, or rows packed with several."""

import random
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from qkv.core.errors import UsageError
from qkv.data.config import BatchConfig
from qkv.data.order import BatchPlan, Budget, Indices, Planned, balanced_share, epoch_plan, permuted, share
from qkv.data.store import LengthArray
from qkv.data.tasks.text_batch import TextBatch, collate_packed, collate_texts
from qkv.data.tasks.text_store import TextStore
from qkv.text.tokenizer import Tokenizer


class TextStream(Planned):
    """One text a row; texts of like length are put together. `sampling` segments every text anew each epoch."""

    unit = "texts"

    def __init__(
        self, store: TextStore, tokenizer: Tokenizer, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> None:
        self.store = store
        self.tokenizer = tokenizer
        self.budget = Budget(batch.tokens, batch.pairs)
        self.batch_tokens = batch.tokens
        self.seed = seed
        self.sampling = sampling

    def new_plan(self, epoch: int) -> BatchPlan:
        lengths, tokens = self.store.src_len, self.budget.tokens
        if (longest := int(lengths.max())) > tokens:
            raise UsageError(
                f"batch.tokens is {tokens}, but the longest text has {longest} tokens; raise batch.tokens, or lower "
                "data.max_tokens"
            )
        return epoch_plan(lengths, lengths, self.store.ranges, self.seed, epoch, self.budget)

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> TextBatch:
        """Batch `index` of `epoch`, or the rows of it that belong to `rank`; those may be none."""
        lengths = self.store.src_len
        chosen: list[int] = balanced_share(self.plan(epoch).batch(index), lengths, lengths, rank, world).tolist()
        return collate_texts(self.ids(chosen, epoch), self.tokenizer.special, chosen, self.store.ends(chosen))

    def names(self, examples: Sequence[int]) -> list[str]:
        """The texts."""
        return self.store.texts(examples)

    def ids(self, examples: Sequence[int], epoch: int) -> list[list[int]]:
        """The tokens of texts, as they are segmented in an epoch."""
        texts = self.store.texts(examples)
        if not self.sampling:
            return self.tokenizer.encode_batch(texts)
        longest = self.store.limits.max_src
        return [self.sampled(text, epoch, example, longest) for example, text in zip(examples, texts, strict=True)]

    def sampled(self, text: str, epoch: int, example: int, longest: int) -> list[int]:
        """A sampled segmentation, or the deterministic one if the sample and its end token exceed `longest`."""
        ids = self.tokenizer.sample(text, random.Random(f"{self.seed} {epoch} {example}"))
        return ids if len(ids) < longest else self.tokenizer.encode(text)


class PackedStream(TextStream):
    """Rows of at most `max_tokens` tokens that hold as many texts as fit, in random order.

    In its plan, an item is a row: `rows` of them in `texts`, each with its texts in the order of `order`. Where texts
    are segmented anew in each epoch, they may become longer: room is left for that, and a text that does not find
    room keeps its usual tokens.
    """

    ROOM: ClassVar[float] = 0.25
    """The share of a row that is left free when texts are sampled."""

    def new_plan(self, epoch: int) -> BatchPlan:
        longest = self.store.limits.max_src
        most = min(self.budget.tokens // longest, self.budget.pairs or self.budget.tokens)
        if most < 1:
            raise UsageError(f"batch.tokens is {self.budget.tokens}, but a packed row has {longest} tokens; raise it")
        self.order = permuted(self.store.ranges, self.seed, epoch)
        room = round(self.ROOM * longest) if self.sampling else 0
        self.starts = packed_rows(self.store.src_len[self.order], longest - room)
        rows = len(self.starts) - 1
        bounds = np.append(np.arange(0, rows, most), rows)
        return BatchPlan(np.arange(rows), bounds, np.arange(len(bounds) - 1))

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> TextBatch:
        rows = share(self.plan(epoch).batch(index), rank, world)
        texts = [self.order[self.starts[row] : self.starts[row + 1]].tolist() for row in rows.tolist()]
        packed = [self._sampled_row(row, epoch) if self.sampling else self.ids(row, epoch) for row in texts]
        ends = [self.store.ends(row) for row in texts]
        return collate_packed(packed, self.tokenizer.special, [row[0] for row in texts], ends)

    def _sampled_row(self, examples: Sequence[int], epoch: int) -> list[list[int]]:
        """The tokens of the texts of a row, which has no more of them than `max_tokens`."""
        usual = self.store.src_len[list(examples)].tolist()
        free, row = self.store.limits.max_src - sum(usual), []
        for example, text, length in zip(examples, self.store.texts(examples), usual, strict=True):
            ids = self.sampled(text, epoch, example, length + free)
            free -= len(ids) + 1 - length
            row.append(ids)
        return row


def packed_rows(lengths: LengthArray, longest: int) -> Indices:
    """Bounds of consecutive rows, each with as many texts as fit into `longest` tokens."""
    ends = np.cumsum(lengths, dtype=np.int64)
    bounds = [0]
    while (start := bounds[-1]) < len(lengths):
        before = int(ends[start - 1]) if start else 0
        bounds.append(max(start + 1, int(np.searchsorted(ends, before + longest, side="right"))))
    return np.array(bounds, dtype=np.int64)
