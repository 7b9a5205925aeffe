"""Test sets in files: what belongs together, and what is said when it does not."""

import gzip
import json
from pathlib import Path

import pyarrow.parquet
import pytest
import zstandard

from qkv.core.errors import DataError, UsageError
from qkv.evaluation.files import EvaluationSet, read_evaluation_set, read_lines, read_outputs, training_targets


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_references_beside_each_other(tmp_path: Path) -> None:
    """An empty line in one of several files of references is no reference; in all of them it is the only one."""
    first, second = write(tmp_path / "1", "a", "", "c", ""), write(tmp_path / "2", "A", "B", "", "")
    test = read_evaluation_set([first, second], None, None)
    assert test.references == [["a", "A"], ["B"], ["c"], [""]]
    assert test.sources is None
    test = read_evaluation_set([first], second, None)
    assert test.sources == ["A", "B", "", ""]


def test_a_table_groups_its_right_answers(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "read\tR EH D", "tomato\tT AH M EY T OW\tignored", "read\tR IY D")
    test = read_evaluation_set([], None, table)
    assert test.sources == ["read", "tomato"]
    assert test.references == [["R EH D", "R IY D"], ["T AH M EY T OW"]]
    assert list(training_targets(str(table), test)) == ["R EH D", "T AH M EY T OW", "R IY D"]
    assert read_outputs(write(tmp_path / "each source", "x", "y"), test) == ["x", "y"]
    assert read_outputs(write(tmp_path / "each line", "x", "y", "x"), test) == ["x", "y"]
    with pytest.raises(DataError, match="wrong:3: differs from line 1, although both have the same source"):
        read_outputs(write(tmp_path / "wrong", "x", "y", "z"), test)
    with pytest.raises(DataError, match=r"few: has 1 lines, but .*t.tsv has 3 lines with 2 different sources"):
        read_outputs(write(tmp_path / "few", "x"), test)


def test_a_line_ends_at_its_newline_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\u2028b\r\nc\x0cd\n\ne".encode())
    assert read_lines(path) == ["a\u2028b", "c\x0cd", "", "e"]
    path.write_bytes(gzip.compress(b"x\ny\n"))
    assert read_lines(path) == ["x", "y"]


def test_different_numbers_of_lines(tmp_path: Path) -> None:
    long, short = write(tmp_path / "long", "a", "b", "c"), write(tmp_path / "short", "a", "b")
    with pytest.raises(DataError, match=r"short: has 2 lines, but .*long has 3;"):
        read_evaluation_set([long, short], None, None)
    with pytest.raises(DataError, match=r"short: has 2 lines, but .*long has 3;"):
        read_evaluation_set([long], short, None)
    with pytest.raises(DataError, match=r"long: has 3 lines, but .*short has 2;"):
        read_outputs(long, read_evaluation_set([short], None, None))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"ok\n\x80\x03]q\x00X", "f:2:1: not valid UTF-8 text"),
        (b"a\0b\n", "f:1:2: not valid UTF-8 text"),
        ("a\n".encode("utf-16"), "looks like UTF-16"),
        (b"PK\x03\x04", "is a zip file"),
        (b"\x1f\x8b\x08damaged", "damaged"),
    ],
    ids=["empty", "binary", "nul", "utf-16", "zip", "half a gzip"],
)
def test_files_that_cannot_be_read(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_lines(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: no such file"):
        read_lines(tmp_path / "none")
    with pytest.raises(DataError, match="cannot be read"):
        read_lines(tmp_path)
    with pytest.raises(DataError, match=r"t.tsv:2: has 1 column\(s\), so there is no column 1"):
        read_evaluation_set([], None, write(tmp_path / "t.tsv", "a\tb", "c d"))
    with pytest.raises(DataError, match=r"empty.tsv: is empty"):
        read_evaluation_set([], None, write(tmp_path / "empty.tsv"))


def test_what_to_compare_with_must_be_said_once(tmp_path: Path) -> None:
    some = write(tmp_path / "f", "a\tb")
    with pytest.raises(UsageError, match="nothing to compare with: give the references by --ref"):
        read_evaluation_set([], some, None)
    with pytest.raises(UsageError, match="--data and --tsv hold both sides"):
        read_evaluation_set([some], None, some)
    with pytest.raises(UsageError, match="--data and --tsv hold both sides"):
        read_evaluation_set([], None, some, str(some))


def write_corpora(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    """The pairs in a file of every kind that holds both sides, as they are given by --data."""
    tab = write(folder / "t.tsv", *(f"{src}\t{tgt}" for src, tgt in pairs))
    (folder / "t.tsv.gz").write_bytes(gzip.compress(tab.read_bytes()))
    (folder / "t.tsv.zst").write_bytes(zstandard.compress(tab.read_bytes()))
    write(folder / "t.csv", "src,tgt", *(f'"{src}",{tgt}' for src, tgt in pairs))
    write(folder / "t.jsonl", *(json.dumps({"src": src, "tgt": tgt}) for src, tgt in pairs))
    columns = {"src": [src for src, _ in pairs], "tgt": [tgt for _, tgt in pairs]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    write(folder / "other", *(json.dumps({"en": src, "de": tgt}) for src, tgt in pairs))
    names = [str(folder / f"t.{name}") for name in ("tsv", "tsv.gz", "tsv.zst", "csv", "jsonl", "parquet")]
    return [*names, f"{{kind: jsonl, path: {folder / 'other'}, src: en, tgt: de}}"]


def test_a_test_set_is_read_from_whatever_training_reads(tmp_path: Path) -> None:
    pairs = [("read", "R EH D"), ("tomato", "T AH M EY T OW"), ("read", "R IY D")]
    for given in write_corpora(tmp_path, pairs):
        test = read_evaluation_set([], None, None, given)
        assert test.sources == ["read", "tomato"], given
        assert test.references == [["R EH D", "R IY D"], ["T AH M EY T OW"]]
        assert test.lines == [0, 1, 0]
        assert [path.exists() for path in test.files] == [True]
        assert list(training_targets(given, EvaluationSet("x", [["y"]]))) == [tgt for _, tgt in pairs]


def test_aligned_files_are_asked_line_by_line(tmp_path: Path) -> None:
    """As `--src` and `--ref`: BLEU of a test set counts each line, also one whose source is there again."""
    src, tgt = write(tmp_path / "a", "x", "x", ""), write(tmp_path / "b", "1", "2", "")
    test = read_evaluation_set([], None, None, f"{{kind: text, src: {src}, tgt: {tgt}}}")
    assert (test.sources, test.references, test.lines) == (["x", "x", ""], [["1"], ["2"], [""]], None)
    assert test.files == (src, tgt)


def test_an_empty_line_in_a_table_is_no_question(tmp_path: Path) -> None:
    test = read_evaluation_set([], None, None, str(write(tmp_path / "t.tsv", "a\tb", "", "c\td")))
    assert test.references == [["b"], ["d"]]
    with pytest.raises(DataError, match="holds only empty pairs"):
        read_evaluation_set([], None, None, str(write(tmp_path / "t.tsv", "", "\t")))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("test.de", r"test.de: the name does not say what kind of file it is \(.*\.jsonl.*\); say it as in a recipe"),
        ("{kind: tvs, path: a}", 'unknown kind "tvs"; did you mean "tsv"'),
        ("{kind: tsv}", "path: is missing"),
        ("{kind: tsv, path: a", "{kind: tsv, path: a: "),
    ],
)
def test_what_is_no_corpus(given: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_evaluation_set([], None, None, given)
