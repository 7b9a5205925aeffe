"""Tables as text: columns by name or number, headers, quotes, and the place where one of them is wrong."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import ConfigError, DataError
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, CsvCorpus, RawPair, TsvCorpus
from qkv.data.readers.named import corpus_of


def read(
    corpus: CorpusConfig, root: Path, invalid: Policy = "error", counts: ReadCounts | None = None
) -> list[RawPair]:
    return list(corpus.read(root, invalid, counts or ReadCounts()))


def csv_corpus(root: Path, content: str | bytes, **keys: Any) -> CsvCorpus:
    (root / "a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return CsvCorpus(path=Path("a.csv"), **keys)


def tsv_corpus(root: Path, content: str, **keys: Any) -> TsvCorpus:
    (root / "a.tsv").write_text(content, encoding="utf-8", newline="")
    return TsvCorpus(path=Path("a.tsv"), **keys)


class TestCsv:
    def test_quotes_delimiters_and_line_ends_inside_a_field(self, tmp_path: Path) -> None:
        content = 'tgt,src\r\n"a, b","say ""no"""\r\n"two\nlines",x\r\nlast,y'
        corpus = csv_corpus(tmp_path, content)
        assert read(corpus, tmp_path) == [('say "no"', "a, b", 2), ("x", "two\nlines", 3), ("y", "last", 5)]

    def test_a_field_is_limited_only_as_a_line_is(self, tmp_path: Path) -> None:
        corpus = csv_corpus(tmp_path, f"src,tgt\n{'x' * 200_000},b\n")
        assert read(corpus, tmp_path) == [("x" * 200_000, "b", 2)]
        unclosed = csv_corpus(tmp_path, 'src,tgt\na,b\nc,"d\n' + f"{'x' * 999_999}\n" * 17)
        with pytest.raises(
            DataError, match=r"a\.csv:3: has a field of more than 16,777,216 characters .* closing quote"
        ):
            read(unclosed, tmp_path)

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_another_delimiter(self, tmp_path: Path, delimiter: str) -> None:
        corpus = csv_corpus(tmp_path, f"src{delimiter}tgt\na, b{delimiter}c\n", delimiter=delimiter)
        assert read(corpus, tmp_path) == [("a, b", "c", 2)]

    def test_a_spreadsheet_begins_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        assert read(csv_corpus(tmp_path, "\ufeffsrc, tgt \na,b\n"), tmp_path) == [("a", "b", 2)]

    def test_compressed(self, tmp_path: Path) -> None:
        assert read(csv_corpus(tmp_path, gzip.compress(b"src,tgt\na,b\n")), tmp_path) == [("a", "b", 2)]

    def test_without_a_header(self, tmp_path: Path) -> None:
        corpus = csv_corpus(tmp_path, "1,b,a\n2,d,c\n", header=False, src=2, tgt=1)
        assert read(corpus, tmp_path) == [("a", "b", 1), ("c", "d", 2)]

    def test_an_empty_line_is_an_empty_pair(self, tmp_path: Path) -> None:
        assert read(csv_corpus(tmp_path, "src,tgt\n\na,b\n"), tmp_path) == [("", "", 2), ("a", "b", 3)]

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("english,german\na,b\n", "a.csv:1: has no column 'src'; the columns are 'english', 'german'"),
            ("src,src,tgt\na,b,c\n", "a.csv:1: has 2 columns 'src'"),
            ("src,tgt\na,b\nc\n", "a.csv:3: has 1 column(s), so there is no column 1 (tgt"),
            ('src,tgt\na,b\n"c,d\ne,f\n', "a.csv:3: is not valid CSV from this line on"),
            ('src,tgt\na,"b" c\n', "a.csv:2: is not valid CSV from this line on"),
            ("src,tgt\n", "a.csv: is empty"),
            ("", "a.csv: is empty"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, content: str, words: str) -> None:
        with pytest.raises(DataError) as caught:
            read(csv_corpus(tmp_path, content), tmp_path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_wrong_name_says_how_to_choose_the_columns(self, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            read(csv_corpus(tmp_path, "source,target\na,b\n"), tmp_path)
        assert 'set src and tgt, as in {kind: csv, path: a.csv, src: "source", tgt: "target"}' in str(caught.value)
        assert "no header" not in str(caught.value)
        remedy = str(caught.value).partition("as in ")[2].replace("a.csv", str(tmp_path / "a.csv"))
        assert read(corpus_of(remedy), tmp_path) == [("a", "b", 2)]

    def test_a_first_line_that_may_be_a_pair_says_how_to_read_it(self, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            read(csv_corpus(tmp_path, "A dog runs.,Ein Hund rennt.\na,b\n"), tmp_path)
        assert "if the file has no header, set header: false with column numbers" in str(caught.value)
        remedy = str(caught.value).rpartition("as in ")[2].replace("a.csv", str(tmp_path / "a.csv"))
        assert read(corpus_of(remedy), tmp_path) == [("A dog runs.", "Ein Hund rennt.", 1), ("a", "b", 2)]

    def test_invalid_text(self, tmp_path: Path) -> None:
        corpus = csv_corpus(tmp_path, b'src,tgt\na,b\n"two\n\xfflines",c\nd,e\n')
        with pytest.raises(DataError, match=r"a\.csv:4:1: not valid UTF-8"):
            read(corpus, tmp_path)
        counts = ReadCounts()
        assert read(corpus, tmp_path, "skip", counts) == [("a", "b", 2), ("d", "e", 5)]
        assert counts == ReadCounts(read=3, invalid=1)
        counts = ReadCounts()
        assert read(corpus, tmp_path, "replace", counts)[1] == ("two\n\ufffdlines", "c", 3)
        assert counts == ReadCounts(read=3, replaced=1)

    @pytest.mark.parametrize(
        "keys",
        [
            {"delimiter": ""},
            {"delimiter": ",,"},
            {"delimiter": '"'},
            {"delimiter": "\n"},
            {"header": False},
            {"src": -1},
        ],
    )
    def test_keys_that_cannot_be(self, keys: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            CsvCorpus.model_validate({"path": "a.csv", **keys})


class TestTsvHeader:
    def test_is_skipped_when_it_is_said_to_be_there(self, tmp_path: Path) -> None:
        assert read(tsv_corpus(tmp_path, "english\tgerman\na\tb\n", header=True), tmp_path) == [("a", "b", 2)]

    def test_names_imply_it(self, tmp_path: Path) -> None:
        corpus = tsv_corpus(tmp_path, "id\tgerman\tenglish\n1\tb\ta\n", src_column="english", tgt_column="german")
        assert read(corpus, tmp_path) == [("a", "b", 2)]

    def test_quotes_are_text(self, tmp_path: Path) -> None:
        assert read(tsv_corpus(tmp_path, '"a\t"b" c\n'), tmp_path) == [('"a', '"b" c', 1)]

    def test_an_unknown_name(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a\.tsv:1: has no column 'en'; the columns are 'english', 'german'"):
            read(tsv_corpus(tmp_path, "english\tgerman\na\tb\n", src_column="en"), tmp_path)
