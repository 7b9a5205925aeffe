"""Each corpus kind reads its format, and names the place when it cannot."""

import gzip
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from qkv.core.errors import DataError, UsageError
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, JsonLinesCorpus, ParquetCorpus, RawPair, TextCorpus, TsvCorpus

SEPARATORS = ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e", "\r"]


def read(
    corpus: CorpusConfig, root: Path, invalid: Policy = "error", counts: ReadCounts | None = None
) -> list[RawPair]:
    return list(corpus.read(root, invalid, counts if counts is not None else ReadCounts()))


def text_corpus(root: Path, src: bytes, tgt: bytes) -> TextCorpus:
    (root / "a.src").write_bytes(src)
    (root / "a.tgt").write_bytes(tgt)
    return TextCorpus(src=Path("a.src"), tgt=Path("a.tgt"))


def tsv_corpus(root: Path, content: str | bytes, src_column: int = 0, tgt_column: int = 1) -> TsvCorpus:
    (root / "a.tsv").write_bytes(content.encode() if isinstance(content, str) else content)
    return TsvCorpus(path=Path("a.tsv"), src_column=src_column, tgt_column=tgt_column)


def json_corpus(root: Path, content: str) -> JsonLinesCorpus:
    (root / "a.jsonl").write_text(content, encoding="utf-8", newline="")
    return JsonLinesCorpus(path=Path("a.jsonl"))


class TestText:
    def test_pairs_and_lines(self, tmp_path: Path) -> None:
        counts = ReadCounts()
        corpus = text_corpus(tmp_path, b"one\ntwo\n", b"eins\r\nzwei")
        assert read(corpus, tmp_path, counts=counts) == [("one", "eins", 1), ("two", "zwei", 2)]
        assert counts == ReadCounts(read=2)

    @pytest.mark.parametrize("separator", SEPARATORS)
    def test_separators_inside_a_line_do_not_shift_pairs(self, tmp_path: Path, separator: str) -> None:
        corpus = text_corpus(tmp_path, f"a{separator}b\nc\n".encode(), b"x\ny\n")
        assert [pair.tgt for pair in read(corpus, tmp_path)] == ["x", "y"]

    def test_compressed_sides(self, tmp_path: Path) -> None:
        corpus = text_corpus(tmp_path, gzip.compress(b"a\nb\n"), zstandard.compress(b"x\ny\n"))
        assert read(corpus, tmp_path) == [("a", "x", 1), ("b", "y", 2)]

    @pytest.mark.parametrize(("src", "tgt", "short"), [(1200, 3, "a.tgt"), (3, 1200, "a.src")])
    def test_different_lengths_name_both_counts(self, tmp_path: Path, src: int, tgt: int, short: str) -> None:
        corpus = text_corpus(tmp_path, b"a\n" * src, b"x\n" * tgt)
        with pytest.raises(DataError) as caught:
            read(corpus, tmp_path)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / short}: has 3 lines")
        assert "1,200" in message
        assert "a.src" in message
        assert "a.tgt" in message

    def test_one_side_empty(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a\.tgt: is empty, while .*a\.src has 2 lines"):
            read(text_corpus(tmp_path, b"a\nb\n", b""), tmp_path)

    def test_both_empty(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a\.src: is empty"):
            read(text_corpus(tmp_path, b"", b""), tmp_path)

    def test_missing_file(self, tmp_path: Path) -> None:
        corpus = TextCorpus(src=Path("none.src"), tgt=Path("none.tgt"))
        with pytest.raises(DataError, match=r"none\.src: no such file"):
            read(corpus, tmp_path)

    def test_invalid_text_stops_with_the_place(self, tmp_path: Path) -> None:
        corpus = text_corpus(tmp_path, b"a\nb\nc\n", b"x\ny\xff\nz\n")
        with pytest.raises(DataError, match=r"a\.tgt:2:2: not valid UTF-8"):
            read(corpus, tmp_path)

    def test_invalid_text_skips_the_pair_and_counts_it_once(self, tmp_path: Path) -> None:
        counts = ReadCounts()
        corpus = text_corpus(tmp_path, b"a\nb\xff\nc\n", b"x\n\xff\nz\n")
        assert read(corpus, tmp_path, "skip", counts) == [("a", "x", 1), ("c", "z", 3)]
        assert counts == ReadCounts(read=3, invalid=1)

    def test_invalid_text_replaced(self, tmp_path: Path) -> None:
        counts = ReadCounts()
        corpus = text_corpus(tmp_path, b"a\nb\xff\n", b"x\ny\n")
        assert read(corpus, tmp_path, "replace", counts) == [("a", "x", 1), ("b\ufffd", "y", 2)]
        assert counts == ReadCounts(read=2, replaced=1)


class TestTsv:
    def test_columns(self, tmp_path: Path) -> None:
        corpus = tsv_corpus(tmp_path, "id\tein\tone\nid\tzwei\ttwo\n", src_column=2, tgt_column=1)
        assert read(corpus, tmp_path) == [("one", "ein", 1), ("two", "zwei", 2)]

    def test_quotes_are_text(self, tmp_path: Path) -> None:
        assert read(tsv_corpus(tmp_path, '"a\t"b"\n'), tmp_path) == [('"a', '"b"', 1)]

    def test_missing_column(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"a\.tsv:2: has 1 column\(s\), so there is no column 1 \(tgt_column"):
            read(tsv_corpus(tmp_path, "a\tb\nonly one\n"), tmp_path)

    def test_blank_line_is_an_empty_pair(self, tmp_path: Path) -> None:
        assert read(tsv_corpus(tmp_path, "\na\tb\n"), tmp_path) == [("", "", 1), ("a", "b", 2)]

    def test_empty_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="is empty"):
            read(tsv_corpus(tmp_path, ""), tmp_path)

    def test_invalid_text(self, tmp_path: Path) -> None:
        corpus = tsv_corpus(tmp_path, b"a\tb\n\xff\tc\n")
        with pytest.raises(DataError, match=r"a\.tsv:2:1: "):
            read(corpus, tmp_path)
        counts = ReadCounts()
        assert len(read(corpus, tmp_path, "skip", counts)) == 1
        assert counts.invalid == 1


class TestJsonLines:
    def test_pairs(self, tmp_path: Path) -> None:
        corpus = json_corpus(tmp_path, '{"src": "a\\nb", "tgt": "x", "id": 1}\n{"tgt": "y", "src": "c"}')
        assert read(corpus, tmp_path) == [("a\nb", "x", 1), ("c", "y", 2)]

    @pytest.mark.parametrize("line", ['{"src": "a"', "not json", "[" * 100_000, "1" * 5000, "\ufeff{}"])
    def test_wrong_json(self, tmp_path: Path, line: str) -> None:
        corpus = json_corpus(tmp_path, '{"src": "a", "tgt": "b"}\n' + line + "\n")
        with pytest.raises(DataError, match=r"a\.jsonl:2: is not JSON"):
            read(corpus, tmp_path)

    @pytest.mark.parametrize("line", ["[1, 2]", '"text"', "3", "null"])
    def test_not_an_object(self, tmp_path: Path, line: str) -> None:
        with pytest.raises(DataError, match=r"a\.jsonl:1: is not a JSON object"):
            read(json_corpus(tmp_path, line), tmp_path)

    def test_missing_key_names_the_keys(self, tmp_path: Path) -> None:
        corpus = json_corpus(tmp_path, '{"src": "a", "tgt": "b"}\n{"src": "a", "target": "b"}\n')
        with pytest.raises(DataError, match=r"a\.jsonl:2: has no key 'tgt'; its keys are 'src', 'target'"):
            read(corpus, tmp_path)

    @pytest.mark.parametrize("value", ["1", "null", '["a"]', "NaN"])
    def test_value_that_is_no_string(self, tmp_path: Path, value: str) -> None:
        with pytest.raises(DataError, match=r"a\.jsonl:1: the value of 'src' is not a string"):
            read(json_corpus(tmp_path, f'{{"src": {value}, "tgt": "b"}}'), tmp_path)

    @pytest.mark.parametrize("escape", ["\\ud800", "\\u0000"])
    def test_escapes_that_no_file_can_hold(self, tmp_path: Path, escape: str) -> None:
        corpus = json_corpus(tmp_path, f'{{"src": "a{escape}", "tgt": "b"}}\n{{"src": "c", "tgt": "d"}}\n')
        with pytest.raises(DataError, match=r"a\.jsonl:1:2: not valid UTF-8"):
            read(corpus, tmp_path)
        counts = ReadCounts()
        assert read(corpus, tmp_path, "skip", counts) == [("c", "d", 2)]
        assert counts.invalid == 1
        assert read(corpus, tmp_path, "replace")[0].src.startswith("a\ufffd")

    def test_empty_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="is empty"):
            read(json_corpus(tmp_path, ""), tmp_path)


class TestParquet:
    def write(self, root: Path, columns: dict[str, pa.Array]) -> ParquetCorpus:
        pq.write_table(pa.table(columns), root / "a.parquet")
        return ParquetCorpus(path=Path("a.parquet"))

    def test_pairs(self, tmp_path: Path) -> None:
        columns = {
            "tgt": pa.array(["x", "y"], pa.large_string()),
            "more": pa.array([1, 2]),
            "src": pa.array(["a", "b"]).dictionary_encode(),
        }
        assert read(self.write(tmp_path, columns), tmp_path) == [("a", "x", 1), ("b", "y", 2)]

    def test_many_row_groups(self, tmp_path: Path) -> None:
        table = pa.table({"src": [str(i) for i in range(30_000)], "tgt": [str(-i) for i in range(30_000)]})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=999)
        pairs = read(ParquetCorpus(path=Path("a.parquet")), tmp_path)
        assert pairs == [(str(i), str(-i), i + 1) for i in range(30_000)]

    def test_wrong_columns(self, tmp_path: Path) -> None:
        corpus = self.write(tmp_path, {"en": pa.array(["a"]), "tgt": pa.array(["b"])})
        with pytest.raises(DataError, match=r"has no single column 'src'; its columns are 'en', 'tgt'"):
            read(corpus, tmp_path)

    @pytest.mark.parametrize("values", [pa.array([1]), pa.array([["a"]]), pa.array([{"en": "a"}])])
    def test_wrong_type(self, tmp_path: Path, values: pa.Array) -> None:
        corpus = self.write(tmp_path, {"src": values, "tgt": pa.array(["b"])})
        with pytest.raises(DataError, match=r"column 'src' holds .*, not strings"):
            read(corpus, tmp_path)

    def test_null(self, tmp_path: Path) -> None:
        corpus = self.write(tmp_path, {"src": pa.array(["a", "b"]), "tgt": pa.array(["x", None])})
        with pytest.raises(DataError, match=r"a\.parquet:2: column 'tgt' is null"):
            read(corpus, tmp_path)

    @pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
    def test_truncated(self, tmp_path: Path, keep: float) -> None:
        corpus = self.write(tmp_path, {"src": pa.array(["a"] * 1000), "tgt": pa.array(["b"] * 1000)})
        whole = (tmp_path / "a.parquet").read_bytes()
        (tmp_path / "a.parquet").write_bytes(whole[: int(len(whole) * keep)])
        with pytest.raises(DataError, match="not a whole Parquet file"):
            read(corpus, tmp_path)

    def test_no_rows(self, tmp_path: Path) -> None:
        corpus = self.write(tmp_path, {"src": pa.array([], pa.string()), "tgt": pa.array([], pa.string())})
        with pytest.raises(DataError, match="is empty"):
            read(corpus, tmp_path)

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"none\.parquet: no such file"):
            read(ParquetCorpus(path=Path("none.parquet")), tmp_path)

    def test_invalid_text(self, tmp_path: Path) -> None:
        bad = pa.array([b"ok", b"b\xff"], pa.binary()).view(pa.string())
        corpus = self.write(tmp_path, {"src": bad, "tgt": pa.array(["x", "y"])})
        with pytest.raises(DataError, match=r"a\.parquet:2:2: not valid UTF-8"):
            read(corpus, tmp_path)
        assert len(read(corpus, tmp_path, "skip")) == 1

    def test_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        corpus = self.write(tmp_path, {"src": pa.array(["a"]), "tgt": pa.array(["b"])})
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(UsageError, match=r"pip install 'qkv\[parquet\]'"):
            read(corpus, tmp_path)
