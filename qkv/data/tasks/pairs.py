"""`data.kind: pairs`: a source and a target, each a text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from qkv.data.build import CountProgress
from qkv.data.check import check_data
from qkv.data.config import BatchConfig, PairsConfig
from qkv.data.length_limit import fit_length_limit
from qkv.data.overlap import Overlap, overlap_with_train
from qkv.data.parts import CorpusPart, data_parts
from qkv.data.prepare import prepare_data
from qkv.data.store import PairStore, tgt_frequencies
from qkv.data.stream import BatchStream
from qkv.data.tasks.base import CheckReport, DataTask, data_tasks
from qkv.text.folder import TokenizerPair


class PairsTask(DataTask[CorpusPart, PairStore]):
    """See `DataTask`."""

    unit = "pairs"

    def __init__(self, data: PairsConfig) -> None:
        self.data = data

    def parts(self, progress: CountProgress | None = None, with_test: bool = False) -> dict[str, CorpusPart]:
        return data_parts(self.data, progress, with_test)

    def prepare(
        self,
        parts: Mapping[str, CorpusPart],
        tokenizers: TokenizerPair,
        folder: Path,
        progress: CountProgress | None = None,
    ) -> dict[str, PairStore]:
        return prepare_data(self.data, parts, tokenizers, folder, progress)

    def open(self, folder: Path) -> PairStore:
        return PairStore.open(folder)

    def stream(
        self, store: PairStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> BatchStream:
        return BatchStream(store, tokenizers, batch, seed, sampling)

    def check(
        self,
        stores: Mapping[str, PairStore],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> CheckReport:
        return check_data(stores, tokenizers, batch, seed, progress)

    def batches(self, train: PairStore, batch: BatchConfig) -> float:
        longer = np.maximum(train.src_len, train.tgt_len)
        weights = [(corpus.weight, corpus.start, corpus.stop) for corpus in train.ranges]
        by_tokens = sum(weight * float(longer[start:stop].sum()) for weight, start, stop in weights) / batch.tokens
        by_pairs = sum(weight * (stop - start) for weight, start, stop in weights) / batch.pairs if batch.pairs else 0.0
        return max(by_tokens, by_pairs, 1.0)

    def facts(self, train: PairStore) -> dict[str, Any]:
        return {
            "longest_src": int(train.src_len.max()),
            "median_src": int(np.median(train.src_len)),
            "length_limit": fit_length_limit(train.src_len, train.tgt_len),
        }

    def overlap(self, part: PairStore, train: PairStore, progress: CountProgress = lambda done, total: None) -> Overlap:
        return overlap_with_train(part, train, progress)

    def frequencies(self, train: PairStore, tokenizers: TokenizerPair) -> Tensor:
        return tgt_frequencies(train, tokenizers.tgt)


data_tasks.register("pairs", PairsTask)
