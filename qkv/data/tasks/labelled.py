"""`data.kind: labelled` and `tagged`: texts with a label, and texts with a label for each word.

src     = <s> ids </s>
tgt_out = the label [B, 1], or [B, S] the tag of a word at its first token; tgt_weight is 1 there and 0 elsewhere
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from qkv.core.errors import DataError
from qkv.data.batch import Batch, padded
from qkv.data.build import CountProgress
from qkv.data.check import check_data
from qkv.data.config import BatchConfig, PairsConfig, data_kinds
from qkv.data.parts import CorpusPart
from qkv.data.readers import RawPair
from qkv.data.store import PairStore
from qkv.data.stream import BatchStream
from qkv.data.tasks.base import data_tasks
from qkv.data.tasks.label_check import LabelReport, count_labels, label_report
from qkv.data.tasks.pairs import PairsTask
from qkv.text.folder import TokenizerPair
from qkv.text.tokenizer import Tokenizer

SIDES = (frozenset({"src", "tgt"}),)


@data_kinds.register
class LabelledConfig(PairsConfig):
    """Texts with a label each: the source of a pair is the text, its target the label."""

    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = SIDES

    kind: Literal["labelled"] = "labelled"  # type: ignore[assignment]  # a kind of its own with the keys of pairs

    @property
    def longest(self) -> tuple[int, int]:
        return self.max_src_tokens + 1, 0


@data_kinds.register
class TaggedConfig(PairsConfig):
    """Texts with a label for each word: the target of a pair has as many words as its source."""

    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = SIDES

    kind: Literal["tagged"] = "tagged"  # type: ignore[assignment]  # a kind of its own with the keys of pairs

    @property
    def longest(self) -> tuple[int, int]:
        return self.max_src_tokens + 1, 0


class LabelledStream(BatchStream):
    """The batches of texts with one label."""

    unit = "texts"

    def batch_of(self, numbers: list[int], epoch: int = 0) -> Batch:
        texts = self.store.read(numbers)
        return self.collate([src for src, _ in texts], [tgt for _, tgt in texts], numbers)

    def collate(self, texts: Sequence[str], labels: Sequence[str], examples: list[int]) -> Batch:
        """A batch of texts and their labels."""
        batch = text_rows(self.tokenizers.src.encode_batch(texts), self.tokenizers.src, examples)
        ids = [(self.tokenizers.tgt.encode(label) or [self.tokenizers.tgt.special.unk])[:1] for label in labels]
        return replace(batch, tgt_out=torch.tensor(ids).view(-1, 1), tgt_weight=torch.ones(len(texts), 1))


class TaggedStream(LabelledStream):
    """The batches of texts with a label for each word."""

    def collate(self, texts: Sequence[str], labels: Sequence[str], examples: list[int]) -> Batch:
        src, tgt = self.tokenizers.src, self.tokenizers.tgt
        words = [word_tokens(text, src) for text in texts]
        batch = text_rows([[i for word in own for i in word] for own in words], src, examples)
        tgt_out, weight = torch.full_like(batch.src, tgt.special.pad), torch.zeros(batch.src.shape)
        for row, (own, tags) in enumerate(zip(words, labels, strict=True)):
            for place, tag in zip(first_places(own), tag_ids(tags, tgt), strict=True):
                tgt_out[row, place], weight[row, place] = tag, 1.0
        return replace(batch, tgt_out=tgt_out, tgt_weight=weight)


def text_rows(ids: Sequence[Sequence[int]], tokenizer: Tokenizer, examples: list[int]) -> Batch:
    """Texts between <s> and </s>, without labels."""
    special = tokenizer.special
    src, keep = padded([[special.bos, *own, special.eos] for own in ids], special.pad)
    nothing = torch.zeros(len(ids), 1, dtype=torch.long)
    return Batch(src, keep, nothing, nothing, torch.zeros(len(ids), 1), examples)


def word_tokens(text: str, tokenizer: Tokenizer) -> list[list[int]]:
    """The tokens of each word of a text; at least one."""
    return [own or [tokenizer.special.unk] for own in tokenizer.encode_batch(text.split())]


def tag_ids(tags: str, tokenizer: Tokenizer) -> list[int]:
    """The id of each tag of a text; raises DataError if the tokenizer does not give each of them one."""
    names = tags.split()
    ids = tokenizer.encode_batch(names) if names else []
    # A tokenizer whose token is the whole text gives a tag alone one id too, that of an unknown text.
    if any(len(own) != 1 for own in ids) or (ids and len(tokenizer.encode(tags)) != len(ids)):
        raise DataError(f"text.tgt does not make one token of each tag of {tags!r}; use text.tgt: whitespace")
    return [own[0] for own in ids]


def first_places(words: Sequence[Sequence[int]]) -> list[int]:
    """Where each word begins behind <s>."""
    places, place = [], 1
    for word in words:
        places.append(place)
        place += len(word)
    return places


class LabelledTask(PairsTask):
    """See `DataTask`."""

    unit = "texts"
    stream_type: ClassVar[type[LabelledStream]] = LabelledStream
    labels_of: ClassVar[str] = "texts"
    """What has a label."""

    def stream(
        self, store: PairStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> LabelledStream:
        return self.stream_type(store, tokenizers, batch, seed)

    def labels(self, target: str) -> list[str]:
        """Those of a text."""
        return [target]

    def check(
        self,
        stores: Mapping[str, PairStore],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> LabelReport:
        counts = {
            name: count_labels(store, lambda target: self.labels(tokenizers.tgt.normalize(target)), progress)
            for name, store in stores.items()
        }
        return label_report(check_data(stores, tokenizers, batch, seed, progress), counts, self.labels_of)

    def facts(self, train: PairStore) -> dict[str, Any]:
        return {"longest_src": int(train.src_len.max())}


class TaggedTask(LabelledTask):
    """See `DataTask`."""

    stream_type = TaggedStream
    labels_of = "words"

    def labels(self, target: str) -> list[str]:
        return target.split()

    def prepare(
        self,
        parts: Mapping[str, CorpusPart],
        tokenizers: TokenizerPair,
        folder: Path,
        progress: CountProgress | None = None,
    ) -> dict[str, PairStore]:
        checked = {name: one_tag_a_word(part, tokenizers.tgt) for name, part in parts.items()}
        return super().prepare(checked, tokenizers, folder, progress)


def one_tag_a_word(part: CorpusPart, tokenizer: Tokenizer) -> CorpusPart:
    """The same part, which raises DataError at a text whose tags are not one for each word."""
    where = " or ".join(corpus.describe(part.root) for corpus in part.corpora)

    def keep(pair: RawPair) -> bool:
        words, tags = len(pair.src.split()), len(pair.tgt.split())
        if words != tags:
            raise DataError(f"{where}:{pair.line}: has {words} words and {tags} tags; give one tag for each word")
        try:
            tag_ids(pair.tgt, tokenizer)
        except DataError as error:
            raise DataError(f"{where}:{pair.line}: {error}") from None
        return part.keep is None or part.keep(pair)

    return replace(part, keep=keep)


data_tasks.register("labelled", LabelledTask)
data_tasks.register("tagged", TaggedTask)
