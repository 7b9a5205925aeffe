"""Train, dev and test: which corpora each reads, and which pairs of a hold-out it takes."""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from qkv.core.errors import DataError, UsageError
from qkv.data.build import CountProgress, Keep
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, RawPair
from qkv.data.store import PairLimits

PROGRESS_EVERY = 100_000


class CorpusData(Protocol):
    """A config that names corpora."""

    @property
    def root(self) -> Path: ...

    @property
    def train(self) -> tuple[CorpusConfig, ...]: ...

    @property
    def dev(self) -> CorpusConfig | None: ...

    @property
    def test(self) -> CorpusConfig | None: ...

    @property
    def holdout(self) -> int | None: ...

    @property
    def invalid_utf8(self) -> Policy: ...

    @property
    def limits(self) -> PairLimits: ...


@dataclass(frozen=True)
class CorpusPart:
    """The pairs of `corpora` that `keep` accepts (None: all)."""

    corpora: tuple[CorpusConfig, ...]
    root: Path
    invalid: Policy
    keep: Keep | None = None

    def pairs(self) -> Iterator[RawPair]:
        """As they are read: empty and long ones too."""
        for corpus in self.corpora:
            for pair in corpus.pairs_of(self.root, self.invalid, ReadCounts()):
                if self.keep is None or self.keep(pair):
                    yield pair

    def texts(self, side: Literal["src", "tgt"]) -> Iterator[str]:
        """The texts of one side, to train a tokenizer on."""
        return (pair.src if side == "src" else pair.tgt for pair in self.pairs())


def data_parts(
    data: CorpusData, progress: CountProgress | None = None, with_test: bool = False
) -> dict[str, CorpusPart]:
    """The parts that `data` has, by name (`train`, `dev`, `test`), after checking that every file is there."""
    named = {"train": data.train, "dev": _only(data.dev), "test": _only(data.test) if with_test else ()}
    for name, corpora in named.items():
        _require_files(name, corpora, data.root)
    parts = {name: CorpusPart(corpora, data.root, data.invalid_utf8) for name, corpora in named.items() if corpora}
    if data.holdout is not None:
        sources = choose_holdout(data.train, data.root, data.invalid_utf8, data.holdout, progress)
        once = tuple(corpus.model_copy(update={"weight": 1.0}) for corpus in data.train)
        parts["train"] = replace(parts["train"], keep=lambda pair: _source(pair) not in sources)
        parts["dev"] = replace(parts["train"], corpora=once, keep=lambda pair: _source(pair) in sources)
    return parts


def choose_holdout(
    corpora: Sequence[CorpusConfig], root: Path, invalid: Policy, pairs: int, progress: CountProgress | None = None
) -> frozenset[int]:
    """Hashes of sources that have `pairs` pairs together, lowest hash first: adding data hardly changes them.

    A source with more pairs than are still needed is skipped, so the number is exact if possible.
    Empty pairs do not count; the length limits, which need a tokenizer, come later.
    """
    hashes = array("Q")
    for corpus in corpora:
        for pair in corpus.pairs_of(root, invalid, ReadCounts()):
            if pair.src.strip() and pair.tgt.strip():
                hashes.append(_source(pair))
                if progress is not None and len(hashes) % PROGRESS_EVERY == 0:
                    progress(len(hashes), None)
    if pairs >= len(hashes):
        raise UsageError(f"data.holdout is {pairs:,}, but data.train has {len(hashes):,} pairs; leave some to train on")
    chosen, wanted = set(), pairs
    sources, counts = np.unique(np.frombuffer(hashes, dtype=np.uint64), return_counts=True)
    for source, count in zip(sources, counts, strict=True):
        if count <= wanted:
            chosen.add(int(source))
            wanted -= int(count)
        if wanted == 0:
            break
    if not chosen or len(chosen) == len(sources):
        raise UsageError("data.holdout: the pairs of train share too few sources to hold some out; give data.dev")
    return frozenset(chosen)


def text_hash(text: str) -> int:
    """A 64-bit hash of the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _source(pair: RawPair) -> int:
    return text_hash(pair.src.strip())


def _only(corpus: CorpusConfig | None) -> tuple[CorpusConfig, ...]:
    """Dev and test are read once, whatever their weight."""
    return () if corpus is None else (corpus.model_copy(update={"weight": 1.0}),)


def corpus_keys(data: CorpusData) -> Iterator[tuple[str, CorpusConfig]]:
    """Every corpus with its key, such as `data.train.0`."""
    for name, corpora in (("train", data.train), ("dev", _only(data.dev)), ("test", _only(data.test))):
        yield from _with_keys(name, corpora)


def _with_keys(name: str, corpora: Sequence[CorpusConfig]) -> Iterator[tuple[str, CorpusConfig]]:
    for number, corpus in enumerate(corpora):
        yield (f"data.{name}.{number}" if len(corpora) > 1 else f"data.{name}"), corpus


def _require_files(name: str, corpora: Sequence[CorpusConfig], root: Path) -> None:
    for place, corpus in _with_keys(name, corpora):
        for key, path in corpus.files().items():
            if not (root / path).exists():
                raise DataError(f"{root / path}: no such file; correct {place}.{key} or data.root")
            if (root / path).is_dir():
                raise DataError(f"{root / path}: is a folder, not a file; correct {place}.{key}")
