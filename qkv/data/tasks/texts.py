"""`data.kind: texts`: texts without a target, for language models."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from qkv.data.arrays.repeats import count_repeated
from qkv.data.build import CountProgress
from qkv.data.check import SAMPLES, advice_lines, quantiles
from qkv.data.config import BatchConfig, DataConfig, as_list, data_kinds
from qkv.data.lines import Policy
from qkv.data.overlap import Overlap, overlap_with_train
from qkv.data.parts import CorpusPart, data_parts, text_hash
from qkv.data.prepare import prepare_data
from qkv.data.readers.texts import AnyTexts
from qkv.data.store import PairLimits
from qkv.data.tasks.base import DataTask, data_tasks
from qkv.data.tasks.text_store import TextStore, build_text_store
from qkv.data.tasks.text_stream import PackedStream, TextStream
from qkv.text.folder import TokenizerPair


@data_kinds.register
class TextsConfig(DataConfig):
    """Texts to learn from, without targets."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"train": {"kind": "lines", "path": "texts.txt"}}
    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"shared"}),)

    kind: Literal["texts"] = "texts"
    train: Annotated[tuple[AnyTexts, ...], BeforeValidator(as_list), Field(min_length=1)]
    """Texts to learn from: one corpus or a list of them."""
    dev: AnyTexts | None = None
    """Texts to choose the best model by."""
    test: AnyTexts | None = None
    """Texts for the final score; training never reads them."""
    holdout: int | None = Field(default=None, ge=1)
    """Without `dev`: this many texts of `train` become it, chosen by a hash; equal texts stay together."""
    invalid_utf8: Policy = "error"
    """A text that is not valid UTF-8: `error` stops, `skip` drops it, `replace` puts U+FFFD in."""
    max_tokens: int = Field(default=256, ge=2)
    """A text with more tokens, the end token included, is split, before a space where there is one. A packed row has so
    many tokens."""
    packed: bool = False
    """Several texts a row, which do not attend to each other; for causal_lm."""

    @property
    def packs(self) -> bool:
        return self.packed

    @property
    def longest(self) -> tuple[int, int]:
        # An encoder reads a text between <s> and </s>.
        return self.max_tokens + 1, self.max_tokens

    @property
    def limits(self) -> PairLimits:
        """Of a text, as of a pair of itself."""
        return PairLimits(max_src=self.max_tokens, max_tgt=self.max_tokens)


@dataclass(frozen=True)
class TextsReport:
    """What `qkv data check` says of texts."""

    parts: dict[str, dict[str, Any]]
    batches: int
    padding: float
    samples: list[list[str]]
    overlaps: dict[str, Overlap] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def with_advice(self, sentences: list[str]) -> "TextsReport":
        return replace(self, advice=sentences)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        lines = []
        for name, part in self.parts.items():
            heading, *dropped = part["store"]
            spread = ", ".join(f"{quantile} {value}" for quantile, value in part["lengths"].items())
            lines += [f"{name}: {heading}", *(f"  {line}" for line in dropped)]
            lines.append(f"  tokens: {spread}; {part['unknown']:.2%} unknown")
            lines += [f"  {part['duplicates']:,} exact duplicates", ""]
        lines += [own.line(name, "texts") for name, own in self.overlaps.items()]
        lines += [f"batches: {self.batches:,} an epoch, {self.padding:.1%} padding", "", "samples of train, as tokens:"]
        lines += [f"  {' '.join(sample)}" for sample in self.samples]
        return "\n".join([*lines, *advice_lines(self.advice)]) + "\n"


class TextsTask(DataTask[CorpusPart, TextStore]):
    """See `DataTask`."""

    unit = "texts"

    def __init__(self, data: TextsConfig) -> None:
        self.data = data

    def parts(self, progress: CountProgress | None = None, with_test: bool = False) -> dict[str, CorpusPart]:
        # A tokenizer of both sides would read each text twice.
        return {name: _once(part) for name, part in data_parts(self.data, progress, with_test).items()}

    def prepare(
        self,
        parts: Mapping[str, CorpusPart],
        tokenizers: TokenizerPair,
        folder: Path,
        progress: CountProgress | None = None,
    ) -> dict[str, TextStore]:
        prepared = prepare_data(self.data, parts, tokenizers, folder, progress, build_text_store)
        return {name: self.open(store.folder) for name, store in prepared.items()}

    def open(self, folder: Path) -> TextStore:
        return TextStore.open(folder)

    def stream(
        self, store: TextStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> TextStream:
        kind = PackedStream if self.data.packed else TextStream
        return kind(store, tokenizers.src, batch, seed, sampling)

    def check(
        self,
        stores: Mapping[str, TextStore],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> TextsReport:
        train = stores["train"]
        stream = self.stream(train, tokenizers, batch, seed)
        plan = stream.plan(0)
        padding = np.mean([stream.batch(0, index).padding for index in range(min(len(plan), 100))])
        places = np.unique(np.linspace(0, len(train) - 1, SAMPLES).astype(np.int64)).tolist()
        samples = [tokenizers.src.tokens(ids) for ids in stream.ids(places, 0)]
        others = {name: store for name, store in stores.items() if name != "train"}
        overlaps = {name: self.overlap(store, train, progress) for name, store in others.items()}
        parts = {name: _part(store) for name, store in stores.items()}
        return TextsReport(parts, len(plan), float(padding), samples, overlaps)

    def batches(self, train: TextStore, batch: BatchConfig) -> float:
        tokens = sum(each.weight * float(train.src_len[each.start : each.stop].sum()) for each in train.ranges)
        texts = sum(each.weight * (each.stop - each.start) for each in train.ranges)
        rows = tokens / self.data.max_tokens if self.data.packed else texts
        return max(tokens / batch.tokens, rows / batch.pairs if batch.pairs else 0.0, 1.0)

    def facts(self, train: TextStore) -> dict[str, Any]:
        return {"longest_src": int(train.src_len.max()), "median_src": int(np.median(train.src_len))}

    def overlap(self, part: TextStore, train: TextStore, progress: CountProgress = lambda done, total: None) -> Overlap:
        # The target of each is empty.
        return overlap_with_train(part, train, progress)

    def frequencies(self, train: TextStore, tokenizers: TokenizerPair) -> Tensor:
        counts = torch.zeros(len(tokenizers.src), dtype=torch.float64)
        for chunk in train.chunks():
            ids = chain.from_iterable(tokenizers.src.encode_batch([text for text, _ in chunk]))
            counts += torch.bincount(torch.tensor(list(ids)), minlength=len(counts))
        counts[tokenizers.src.special.eos] += sum(train.ends(range(len(train))))
        return counts


class _Once(CorpusPart):
    """A part whose texts have one side."""

    def texts(self, side: Literal["src", "tgt"]) -> Any:
        return super().texts("src") if side == "src" else iter(())


def _once(part: CorpusPart) -> _Once:
    return _Once(part.corpora, part.root, part.invalid, part.keep)


def _part(store: TextStore) -> dict[str, Any]:
    texts = (text for chunk in store.chunks() for text, _ in chunk)
    hashes = np.fromiter(map(text_hash, texts), np.uint64, len(store))
    counts = store.report
    return {
        "store": counts.lines(),
        "lengths": quantiles(store.src_len),
        "unknown": counts.src_unknown / max(counts.src_tokens - counts.kept, 1),
        "duplicates": count_repeated(hashes),
    }


data_tasks.register("texts", TextsTask)
