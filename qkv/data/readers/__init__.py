"""Corpora: where pairs of texts come from. Each kind streams `RawPair`s; errors name file:line.

train:
  - {kind: text, src: train.en, tgt: train.de}
  - {kind: csv, path: more.csv.gz, src: english, tgt: german, weight: 0.5}
"""

from typing import Annotated

from qkv.data.readers.base import CorpusConfig, RawPair, corpora
from qkv.data.readers.csv import CsvCorpus
from qkv.data.readers.jsonl import JsonLinesCorpus
from qkv.data.readers.memory import MemoryCorpus
from qkv.data.readers.parquet import ParquetCorpus
from qkv.data.readers.text import TextCorpus
from qkv.data.readers.tsv import TsvCorpus

AnyCorpus = Annotated[CorpusConfig, corpora]

__all__ = [
    "AnyCorpus",
    "CorpusConfig",
    "CsvCorpus",
    "JsonLinesCorpus",
    "MemoryCorpus",
    "ParquetCorpus",
    "RawPair",
    "TextCorpus",
    "TsvCorpus",
    "corpora",
]
