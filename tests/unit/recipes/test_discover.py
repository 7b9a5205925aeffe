"""Files as people have them: which are train, dev and test, and which columns are source and target."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qkv.core.errors import DataError, QkvError, UsageError
from qkv.data.lines import ReadCounts
from qkv.data.readers import corpora as corpus_kinds
from qkv.data.readers.named import corpus_of
from qkv.recipes.discover import Found, discover


def write(folder: Path, **files: str) -> Path:
    """`train_tsv="..."` writes train.tsv."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def corpora(found: Found) -> tuple[dict[str, Any], ...]:
    return tuple(corpus for corpus in (found.train, found.dev, found.test) if corpus is not None)


def test_a_table_with_its_dev_and_test(tmp_path: Path) -> None:
    folder = write(tmp_path / "pairs", train_tsv="a\tb\n", valid_tsv="c\td\n", test_tsv="e\tf\n")
    paths = [{"kind": "tsv", "path": f"{name}.tsv"} for name in ("train", "valid", "test")]
    for data in (folder, folder / "train.tsv"):
        found = discover([data])
        assert (found.name, found.root, list(corpora(found))) == ("pairs", folder, paths)


def test_the_name_of_a_file_may_hold_more(tmp_path: Path) -> None:
    folder = write(tmp_path, hun__train_tsv="a\tb\n", hun__dev_tsv="c\td\n", fin__train_tsv="a\tb\n")
    found = discover([folder / "hun-train.tsv"])
    assert (found.name, found.dev) == ("hun", {"kind": "tsv", "path": "hun-dev.tsv"})
    with pytest.raises(UsageError, match=r"no single file of training pairs \(fin-train.tsv, hun-train.tsv\)"):
        discover([folder])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\tc d\n", {}),
        ("english\tgerman\nyes\tja\n", {"header": True}),
        ("1\ta\tb\n2\tc\td\n", {"src_column": 1, "tgt_column": 2}),
        ("id\ttarget\tsource\n1\ta\tb\n", {"src_column": 2, "tgt_column": 1, "header": True}),
    ],
)
def test_columns_of_a_tsv(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert discover([write(tmp_path, a_tsv=text) / "a.tsv"]).train == {"kind": "tsv", "path": "a.tsv", **expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("english,german\nyes,ja\n", {"src": "english", "tgt": "german"}),
        ("id;output;input\n1;b;a\n", {"src": "input", "tgt": "output", "delimiter": ";"}),
        ('"hello, you",hallo du\nbye,tschuess\n', {"header": False, "src": 0, "tgt": 1}),
        ("de,en\nja,yes\n", {"src": "en", "tgt": "de"}),
        (f'src,tgt\n"a{chr(10) * 150}b",c\nd,e\n', {"src": "src", "tgt": "tgt"}),
        ("src,tgt\n" + f"{'x' * 200_000},c\n", {"src": "src", "tgt": "tgt"}),
    ],
)
def test_columns_of_a_csv(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert discover([write(tmp_path, a_csv=text) / "a.csv"]).train == {"kind": "csv", "path": "a.csv", **expected}


def test_keys_of_json_and_columns_of_parquet(tmp_path: Path) -> None:
    record = {"n": 3, "target": "b", "source": "a"}
    write(tmp_path, a_jsonl=json.dumps(record) + "\n")
    pq.write_table(pa.table({key: [value] for key, value in record.items()}), tmp_path / "a.parquet")
    for kind in ("jsonl", "parquet"):
        expected = {"kind": kind, "path": f"a.{kind}", "src": "source", "tgt": "target"}
        assert discover([tmp_path / f"a.{kind}"]).train == expected


def test_blank_lines_before_the_first_record(tmp_path: Path) -> None:
    write(tmp_path, a_jsonl='\n \n{"src": "a", "tgt": "b"}\n', b_tsv="\n" * 200 + "a\tb\n")
    assert discover([tmp_path / "a.jsonl"]).train == {"kind": "jsonl", "path": "a.jsonl", "src": "src", "tgt": "tgt"}
    assert discover([tmp_path / "b.tsv"]).train == {"kind": "tsv", "path": "b.tsv"}


@pytest.mark.parametrize("ending", [".tsv", ".tab", ".TSV.gz", ".tab.zst"])
def test_the_names_of_tables_are_those_of_corpora(ending: str, tmp_path: Path) -> None:
    """What `qkv init` takes, `--data` takes."""
    path = tmp_path / f"train{ending}"
    path.write_text("a\tb\n")
    assert discover([tmp_path]).train["path"] == path.name
    assert corpus_of(str(path)).files() == {"path": path}


def test_compressed_and_without_a_suffix(tmp_path: Path) -> None:
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    assert discover([tmp_path]).train == {"kind": "tsv", "path": "train.tsv.gz"}
    (tmp_path / "g014b2b").write_text("a\tb\n")
    assert discover([tmp_path / "g014b2b"]).train["kind"] == "tsv"


def test_two_text_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "en-de", train_en="a\n", train_de="b\n", val_en="a\n", val_de="b\n", test_en="only one\n")
    for data in ([folder / "train.en", folder / "train.de"], [folder]):
        found = discover(data)
        assert found.train == {"kind": "text", "src": "train.en", "tgt": "train.de"}
        assert found.dev == {"kind": "text", "src": "val.en", "tgt": "val.de"}
        assert found.test is None
    backwards = discover([folder / "train.de", folder / "train.en"])
    assert backwards.train == {"kind": "text", "src": "train.de", "tgt": "train.en"}


def test_only_one_of_two_text_files_is_named_train(tmp_path: Path) -> None:
    folder = write(tmp_path / "x", train_en="a\n", target_de="b\n", dev_en="a\n")
    for names in (("train.en", "target.de"), ("target.de", "train.en")):
        found = discover([folder / name for name in names])
        assert corpora(found) == ({"kind": "text", "src": names[0], "tgt": names[1]},)


@pytest.mark.parametrize(
    ("files", "data", "words"),
    [
        ({}, ["."], "no single file of training pairs (nothing)"),
        ({"a_txt": "one text\n"}, ["a.txt"], "is no table"),
        ({"a_tsv": ""}, ["a.tsv"], "is empty"),
        ({"a_tsv": "a\tb\nc\n"}, ["a.tsv"], "a line with a single column"),
        ({"a_csv": "n,m,k\n1,2,x\n"}, ["a.csv"], "fewer than two columns of text"),
        ({"a_jsonl": "{oops\n"}, ["a.jsonl"], "a.jsonl:1: is not JSON"),
        ({"a_jsonl": "\n{oops\n"}, ["a.jsonl"], "a.jsonl:2: is not JSON"),
        ({"a_csv": 'a,b\n"c,d\n'}, ["a.csv"], "a.csv:2: is not valid CSV"),
        ({"a_csv": "\n\n"}, ["a.csv"], "is empty"),
        ({"a_jsonl": '{"a": "b"}\n'}, ["a.jsonl"], "fewer than two columns of text"),
        ({}, ["nowhere"], "no such file or folder"),
        ({"a_tsv": "a\tb\n"}, ["a.tsv", "a.tsv", "a.tsv"], "give one file"),
    ],
)
def test_what_cannot_be_used(files: dict[str, str], data: list[str], words: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "x", **files)
    with pytest.raises(QkvError) as caught:
        discover([folder / name for name in data])
    assert words in str(caught.value)
    assert isinstance(caught.value, UsageError | DataError)


@pytest.mark.parametrize(
    ("name", "above"), [("pairs.tsv", "\n\n"), ("pairs.tsv", "  \n"), ("pairs.csv", "\n"), ("pairs.csv", " , \n\n")]
)
def test_blank_lines_above_a_header_do_not_matter(tmp_path: Path, name: str, above: str) -> None:
    separator = "\t" if name.endswith("tsv") else ","
    rows = [("english", "spanish"), ("a dog runs", "un perro corre"), ("two cats", "dos gatos")]
    table = "".join(separator.join(row) + "\n" for row in rows)
    (tmp_path / name).write_text(table)
    plain = discover([tmp_path / name]).train
    (tmp_path / name).write_text(above + table)
    assert discover([tmp_path / name]).train == plain
    corpus = corpus_kinds[plain["kind"]].model_validate(plain)
    pairs = [(pair.src, pair.tgt) for pair in corpus.read(tmp_path, "error", ReadCounts()) if pair.src]
    assert pairs == rows[1:]
