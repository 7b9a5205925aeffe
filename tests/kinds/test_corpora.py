"""Every registered corpus kind reads the same pairs, meets the same faults, and says what it is."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import DataError
from qkv.data.build import build_store
from qkv.data.lines import ReadCounts
from qkv.data.readers import CorpusConfig, corpora
from qkv.data.store import PairLimits, PairStore
from qkv.text.folder import TokenizerPair
from qkv.text.whitespace import WhitespaceConfig

Pairs = list[tuple[str, str]]
PAIRS: Pairs = [("one two", "eins zwei"), ("caf\u00e9", "Kaffee \u2028 haus"), ("", "leer"), ("three", "drei")]


def write_text(root: Path, pairs: Pairs) -> dict[str, Any]:
    for side, name in enumerate(("p.src", "p.tgt")):
        (root / name).write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return {"src": "p.src", "tgt": "p.tgt"}


def write_tsv(root: Path, pairs: Pairs) -> dict[str, Any]:
    (root / "p.tsv").write_bytes("".join(f"{src}\t{tgt}\n" for src, tgt in pairs).encode())
    return {"path": "p.tsv"}


def write_csv(root: Path, pairs: Pairs) -> dict[str, Any]:
    with (root / "p.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("number", "german", "english"), *((7, tgt, src) for src, tgt in pairs)])
    return {"path": "p.csv", "src": "english", "tgt": "german"}


def write_jsonl(root: Path, pairs: Pairs) -> dict[str, Any]:
    (root / "p.jsonl").write_bytes("".join(json.dumps({"src": s, "tgt": t}) + "\n" for s, t in pairs).encode())
    return {"path": "p.jsonl"}


def write_parquet(root: Path, pairs: Pairs) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"src": [src for src, _ in pairs], "tgt": [tgt for _, tgt in pairs]}
    schema = pa.schema([("src", pa.string()), ("tgt", pa.string())])
    pq.write_table(pa.table(columns, schema=schema), root / "p.parquet")
    return {"path": "p.parquet"}


def keep_in_memory(root: Path, pairs: Pairs) -> dict[str, Any]:
    return {"pairs": pairs}


WRITERS: dict[str, Callable[[Path, Pairs], dict[str, Any]]] = {
    "text": write_text,
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "memory": keep_in_memory,
}
HEADED = {"csv"}
WITHOUT_FILES = {"memory"}
FILES = pytest.mark.parametrize("kind", sorted(set(corpora.names()) - WITHOUT_FILES))
EACH = pytest.mark.parametrize("kind", corpora.names())


def corpus_of(kind: str, root: Path, pairs: Pairs) -> CorpusConfig:
    return corpora[kind].model_validate({"kind": kind, **WRITERS[kind](root, pairs)})


def test_every_kind_has_a_writer() -> None:
    assert set(WRITERS) == set(corpora.names())


@EACH
def test_reads_what_was_written(kind: str, tmp_path: Path) -> None:
    counts = ReadCounts()
    pairs = list(corpus_of(kind, tmp_path, PAIRS).read(tmp_path, "error", counts))
    assert [(pair.src, pair.tgt) for pair in pairs] == PAIRS
    first = 2 if kind in HEADED else 1
    assert [pair.line for pair in pairs] == list(range(first, first + 4))
    assert counts == ReadCounts(read=4)


@EACH
def test_can_be_read_again(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(kind, tmp_path, PAIRS)
    first, second = (list(corpus.read(tmp_path, "error", ReadCounts())) for _ in range(2))
    assert first == second


@FILES
def test_names_its_files(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(kind, tmp_path, PAIRS)
    assert corpus.files()
    for key, path in corpus.files().items():
        assert getattr(corpus, key) == path
        assert (tmp_path / path).is_file()


@EACH
def test_empty(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(kind, tmp_path, [])
    with pytest.raises(DataError, match="is empty"):
        list(corpus.read(tmp_path, "error", ReadCounts()))


@FILES
def test_missing_files(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(kind, tmp_path, PAIRS)
    with pytest.raises(DataError, match="no such file"):
        list(corpus.read(tmp_path / "elsewhere", "error", ReadCounts()))


@EACH
def test_makes_a_store(kind: str, tmp_path: Path) -> None:
    tokenizer = WhitespaceConfig().train(text for pair in PAIRS for text in pair)
    corpus = corpus_of(kind, tmp_path, PAIRS)
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    report = build_store(tmp_path / "store", [corpus], tmp_path, "error", PairLimits(9, 9), tokenizers)
    assert (report.read, report.kept, report.empty) == (4, 3, 1)
    assert PairStore.open(tmp_path / "store").read(range(3)) == [PAIRS[0], PAIRS[1], PAIRS[3]]


@EACH
def test_config_round_trip_and_documentation(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(kind, tmp_path, PAIRS)
    assert type(corpus).model_validate(corpus.model_dump(mode="json")) == corpus
    assert type(corpus).__doc__
    fields = {name: field for name, field in type(corpus).model_fields.items() if name != "kind"}
    assert all(field.description for field in fields.values())
