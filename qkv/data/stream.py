"""Any batch of any epoch by its number, so that resuming in the middle needs no replay."""

import random
from collections.abc import Sequence
from dataclasses import replace

from qkv.data.alignments.tokens import alignment_matrices
from qkv.data.batch import Batch, collate
from qkv.data.config import BatchConfig
from qkv.data.order import BatchPlan, Budget, Planned, balanced_share, epoch_plan
from qkv.data.store import PairStore
from qkv.text.folder import TokenizerPair
from qkv.text.tokenizer import Tokenizer


class BatchStream(Planned):
    """The batches of a store. `sampling` segments every text anew each epoch, as the tokenizers are configured."""

    unit = "pairs"

    def __init__(
        self, store: PairStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> None:
        self.store = store
        self.tokenizers = tokenizers
        self.budget = Budget(batch.tokens, batch.pairs)
        self.curriculum = batch.curriculum
        self.seed = seed
        self.sampling = sampling
        self.batch_tokens = batch.tokens

    def new_plan(self, epoch: int) -> BatchPlan:
        store, limit = self.store, self.curriculum.longest(epoch) if self.curriculum else None
        return epoch_plan(store.src_len, store.tgt_len, store.ranges, self.seed, epoch, self.budget, limit)

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> Batch:
        """Batch `index` of `epoch`, or the rows of it that belong to `rank`; those may be none."""
        rows = self.plan(epoch).batch(index)
        return self.batch_of(balanced_share(rows, self.store.src_len, self.store.tgt_len, rank, world).tolist(), epoch)

    def batch_of(self, numbers: list[int], epoch: int = 0) -> Batch:
        """These pairs of the store, as they are in `epoch`."""
        texts = self.store.read(numbers)
        src, tgt = self.tokenizers.src, self.tokenizers.tgt
        if self.sampling:
            ids = [self._sampled(epoch, pair, *text) for pair, text in zip(numbers, texts, strict=True)]
            src_ids, tgt_ids = [pair[0] for pair in ids], [pair[1] for pair in ids]
        else:
            src_ids = src.encode_batch([text[0] for text in texts])
            tgt_ids = tgt.encode_batch([text[1] for text in texts])
        sides = zip(texts, src_ids, tgt_ids, strict=True)
        linked = [self.tokenizers.linked(*text, own, other) for text, own, other in sides]
        batch = collate([ids for ids, _ in linked], [ids for _, ids in linked], src.special, tgt.special, numbers)
        if self.store.alignments is None:
            return batch
        tokens = [src.tokens(ids) for ids in src_ids], [tgt.tokens(ids) for ids in tgt_ids]
        shape = batch.tgt_out.shape[1], batch.src.shape[1]
        return replace(batch, alignment=alignment_matrices(self.store.alignments.read(numbers), *tokens, shape))

    def names(self, examples: Sequence[int]) -> list[str]:
        """The sources of the pairs."""
        return [src for src, _ in self.store.read(examples)]

    def _sampled(self, epoch: int, pair: int, src: str, tgt: str) -> tuple[list[int], list[int]]:
        # Seeded by a string: Python hashes it with SHA-512, the same on every machine and version.
        generator = random.Random(f"{self.seed} {epoch} {pair}")
        limits = self.store.limits
        return (
            _sample_within(self.tokenizers.src, src, generator, limits.max_src),
            _sample_within(self.tokenizers.tgt, tgt, generator, limits.max_tgt),
        )


def _sample_within(tokenizer: Tokenizer, text: str, generator: random.Random, limit: int) -> list[int]:
    """A sampled segmentation, or the deterministic one if the sample and its end token exceed the limit."""
    ids = tokenizer.sample(text, generator)
    return ids if len(ids) < limit else tokenizer.encode(text)
