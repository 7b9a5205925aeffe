"""What goes into a store comes out of it; what is left out is counted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qkv.core.errors import CorruptFolder, DataError
from qkv.core.files import write_manifest
from qkv.data.build import build_store
from qkv.data.readers import TextCorpus, TsvCorpus
from qkv.data.store import CorpusRange, PairLimits, PairStore
from qkv.text.folder import TokenizerPair

MakeStore = Callable[..., PairStore]
WriteText = Callable[..., TextCorpus]

PAIRS = [("w1 w2 w3", "x1"), ("w1", "x1 x2"), ("wörld w2", "x9 \u2028 x8 x7"), ("w5", "unknown x5")]


def test_round_trip_in_any_order(make_store: MakeStore) -> None:
    store = make_store(PAIRS)
    assert len(store) == 4
    assert store.read([2, 0, 2]) == [PAIRS[2], PAIRS[0], PAIRS[2]]
    assert store.read(np.array([], dtype=np.int64)) == []
    assert [pair for chunk in store.chunks(3) for pair in chunk] == PAIRS
    assert [len(chunk) for chunk in store.chunks(3)] == [3, 1]


def test_lengths_include_the_end_token(make_store: MakeStore) -> None:
    store = make_store(PAIRS)
    assert store.src_len.tolist() == [4, 2, 3, 2]
    assert store.tgt_len.tolist() == [2, 3, 4, 3]
    report = store.report
    assert (report.src_tokens, report.tgt_tokens) == (11, 12)
    assert (report.src_unknown, report.tgt_unknown) == (1, 1)


@pytest.mark.parametrize("index", [4, -1])
def test_index_out_of_range(make_store: MakeStore, index: int) -> None:
    with pytest.raises(IndexError):
        make_store(PAIRS).read([index])


def test_many_chunks(make_store: MakeStore) -> None:
    pairs = [(f"w{i % 100} w{i % 7}", f"x{i % 90}") for i in range(10_000)]
    store = make_store(pairs)
    assert [pair for chunk in store.chunks() for pair in chunk] == pairs
    assert store.read([9_999, 4_096, 4_095]) == [pairs[9_999], pairs[4_096], pairs[4_095]]


def test_drops_are_counted(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    (tmp_path / "a.src").write_bytes(b"w1\n\nw1\n \t\nw1 w2 w3\nw1\n\xff\nw2\n")
    (tmp_path / "a.tgt").write_bytes(b"x1\nx1\n\nx1\nx1\nx1 x2 x3\nx1\nx2\n")
    corpus = TextCorpus(src=Path("a.src"), tgt=Path("a.tgt"))
    done: list[tuple[int, int | None]] = []
    report = build_store(
        tmp_path / "store",
        [corpus],
        tmp_path,
        "skip",
        PairLimits(max_src=3, max_tgt=3),
        tokenizers,
        progress=lambda *now: done.append(now),
    )
    assert (report.read, report.kept, report.empty, report.too_long, report.invalid) == (8, 2, 3, 2, 1)
    assert report.lines()[0] == "2 of 8 pairs kept"
    assert len(report.lines()) == 4
    assert done == [(8, None)]
    store = PairStore.open(tmp_path / "store")
    assert store.report == report
    assert store.limits == PairLimits(3, 3)
    assert store.read([0, 1]) == [("w1", "x1"), ("w2", "x2")]


def test_limit_is_the_longest_that_stays(make_store: MakeStore) -> None:
    pairs = [("w1 " * n, "x1 " * n) for n in range(1, 6)]
    assert make_store(pairs, limits=PairLimits(4, 9)).src_len.tolist() == [2, 3, 4]
    assert make_store(pairs, limits=PairLimits(9, 4)).tgt_len.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [([("", ""), (" ", "x")], "2 dropped: a side is empty"), ([("w " * 300, "x")] * 3, "3 dropped: longer than")],
    ids=["blank lines only", "all too long"],
)
def test_no_usable_pair(make_store: MakeStore, tmp_path: Path, pairs: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(DataError, match=rf"made\.src and .*made\.tgt: 0 usable pairs \(.*{reason}"):
        make_store(pairs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.src", "made.tgt"]


def test_line_of_a_million_characters(make_store: MakeStore) -> None:
    store = make_store([("w" * 1_000_000, "x1"), ("w1 " * 400_000, "x1")])
    assert len(store) == 1
    assert store.read([0])[0][0] == "w" * 1_000_000


def test_several_corpora_keep_their_ranges(tmp_path: Path, write_text: WriteText, tokenizers: TokenizerPair) -> None:
    first = write_text("first", PAIRS)
    (tmp_path / "second.tsv").write_text("w1\tx1\nw2\tx2\n\n")
    second = TsvCorpus(path=Path("second.tsv"), weight=0.5)
    build_store(tmp_path / "store", [first, second], tmp_path, "error", PairLimits(256, 256), tokenizers)
    store = PairStore.open(tmp_path / "store")
    assert store.ranges == [CorpusRange(0, 4, 1.0), CorpusRange(4, 6, 0.5)]
    assert store.read([5]) == [("w2", "x2")]


def test_fingerprint_is_of_the_content(make_store: MakeStore) -> None:
    first = make_store(PAIRS, "first")
    assert make_store(PAIRS, "again").fingerprint == first.fingerprint
    assert make_store(PAIRS[::-1], "other").fingerprint != first.fingerprint


def test_failure_leaves_the_old_store(make_store: MakeStore) -> None:
    old = make_store(PAIRS)
    with pytest.raises(DataError):
        make_store([("", "")])
    assert PairStore.open(old.folder).fingerprint == old.fingerprint


class TestDamage:
    @pytest.mark.parametrize("name", ["text.bin", "index.bin", "src_len.bin", "tgt_len.bin", "store.json"])
    def test_missing_or_cut_file(self, make_store: MakeStore, name: str) -> None:
        folder = make_store(PAIRS).folder
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptFolder, match=name):
            PairStore.open(folder)
        path.unlink()
        with pytest.raises(CorruptFolder, match=name):
            PairStore.open(folder)

    def test_changed_byte_is_found_on_demand(self, make_store: MakeStore) -> None:
        store = make_store(PAIRS)
        store.verify()
        content = bytearray((store.folder / "text.bin").read_bytes())
        content[3] ^= 1
        (store.folder / "text.bin").write_bytes(content)
        with pytest.raises(CorruptFolder, match=r"text\.bin"):
            PairStore.open(store.folder).verify()

    def test_cut_while_open(self, make_store: MakeStore) -> None:
        store = make_store(PAIRS)
        (store.folder / "text.bin").write_bytes(b"")
        with pytest.raises(CorruptFolder, match="ends too early"):
            store.read([0])

    def test_another_folder(self, tmp_path: Path) -> None:
        write_manifest(tmp_path, {})
        with pytest.raises(CorruptFolder, match="not the manifest of prepared data"):
            PairStore.open(tmp_path)
        with pytest.raises(CorruptFolder, match="no such folder"):
            PairStore.open(tmp_path / "none")
