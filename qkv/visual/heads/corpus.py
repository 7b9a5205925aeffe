"""Pairs of a corpus as batches whose attention weights fit into bounded memory, however large the corpus is."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from qkv.core.errors import DataError, UsageError
from qkv.data.batch import Batch, collate
from qkv.data.batching import by_length, in_chunks
from qkv.data.lines import ReadCounts
from qkv.data.readers import CorpusConfig
from qkv.data.tasks.labelled import text_rows
from qkv.models.base import Model
from qkv.models.language.masked import TextModel
from qkv.search.scoring import check_lengths
from qkv.text import Tokenizer, TokenizerPair

PAIRS_AT_ONCE = 512
WEIGHTS_AT_ONCE = 4_000_000
"""The attention weights of a batch, over all heads of one side."""


@dataclass(frozen=True)
class HeadCorpus:
    """Pairs of texts that heads are analysed on; they are read more than once."""

    name: str
    read: Callable[[], Iterable[tuple[str, str]]]
    """Begins anew at each call."""
    limit: int | None = None
    """Only so many pairs, the first ones."""

    @classmethod
    def of_files(cls, corpus: CorpusConfig, limit: int | None = None) -> "HeadCorpus":
        """The pairs of a corpus, streamed."""
        for path in corpus.files().values():
            if path.exists() and not path.is_file():
                raise UsageError(f"{path}: is read more than once; give a file, not a pipe")

        def read() -> Iterator[tuple[str, str]]:
            return ((pair.src, pair.tgt) for pair in corpus.read(Path("."), "error", ReadCounts()))

        return cls(corpus.describe(Path(".")), read, limit)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs with an empty side are skipped."""
        return islice(((src, tgt) for src, tgt in self.read() if src.strip() and tgt.strip()), self.limit)

    def batches(self, model: Model, tokenizers: TokenizerPair, heads: int) -> Iterator[Batch]:
        """Small enough that the weights of `heads` heads fit into memory; sentences of a chunk are sorted by length.

        A model of single texts gets the source side.
        """
        done = 0
        for chunk in in_chunks(self.pairs(), PAIRS_AT_ONCE):
            if isinstance(model, TextModel):
                yield from _text_batches(model, tokenizers.src, [src for src, _ in chunk], heads)
                done += len(chunk)
                continue
            linked = _encoded(tokenizers, chunk)
            src, tgt = [ids for ids, _ in linked], [ids for _, ids in linked]
            check_lengths([model], src, tgt, done + 1)
            squares = [(max(len(a), len(b)) + 1) ** 2 for a, b in linked]
            special = tokenizers.src.special, tokenizers.tgt.special
            for rows in by_length(squares, heads, WEIGHTS_AT_ONCE):
                yield collate([src[row] for row in rows], [tgt[row] for row in rows], *special, rows)
            done += len(chunk)
        if not done:
            raise DataError(f"{self.name}: holds only empty pairs; give a file with at least one")

    def frequencies(self, tokenizers: TokenizerPair) -> tuple[Tensor, Tensor]:
        """How often each id of the source and of the target vocabulary occurs in the corpus."""
        src, tgt = (torch.zeros(len(side), dtype=torch.long) for side in (tokenizers.src, tokenizers.tgt))
        for chunk in in_chunks(self.pairs(), PAIRS_AT_ONCE):
            for counts, own, texts in (
                (src, tokenizers.src, [one for one, _ in chunk]),
                (tgt, tokenizers.tgt, [two for _, two in chunk]),
            ):
                ids = torch.tensor([one for text in own.encode_batch(texts) for one in text], dtype=torch.long)
                counts += torch.bincount(known(ids, own), minlength=len(counts))
        return src, tgt


def known(ids: Tensor, tokenizer: Tokenizer) -> Tensor:
    """Ids with unk in place of those beyond the vocabulary, which a model that copies has."""
    return ids.where(ids < len(tokenizer), tokenizer.special.unk)


def _text_batches(model: TextModel, tokenizer: Tokenizer, texts: list[str], heads: int) -> Iterator[Batch]:
    """Texts between <s> and </s>, cut where the model has no more positions."""
    room = None if model.limits.src is None else model.limits.src - 2
    ids = [own[:room] for own in tokenizer.encode_batch(texts)]
    for rows in by_length([(len(own) + 2) ** 2 for own in ids], heads, WEIGHTS_AT_ONCE):
        yield text_rows([ids[row] for row in rows], tokenizer, rows)


def _encoded(tokenizers: TokenizerPair, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
    src = tokenizers.src.encode_batch([one for one, _ in pairs])
    tgt = tokenizers.tgt.encode_batch([two for _, two in pairs])
    return [tokenizers.linked(*pair, *ids) for pair, *ids in zip(pairs, src, tgt, strict=True)]
