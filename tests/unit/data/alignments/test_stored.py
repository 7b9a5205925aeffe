"""Alignments of prepared data: read beside the pairs, checked line by line, carried to the tokens of each batch."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import CorruptFolder, DataError
from qkv.core.files import MANIFEST, write_manifest
from qkv.data.alignments.pharaoh import format_links
from qkv.data.alignments.stored import INDEX_FILE
from qkv.data.build import build_store
from qkv.data.config import BatchConfig
from qkv.data.readers import TextCorpus
from qkv.data.store import PairLimits, PairStore
from qkv.data.stream import BatchStream
from qkv.text import SentencePieceConfig
from qkv.text.folder import TokenizerPair

SRC = "w1 w2 w3\nw1\n\nw4 w5\n"
TGT = "x1\nx1 x2\nx3\nx4 x5 x6\n"
LINKS = "0-0 2-0\n\n0-0\n1-0 0-2\n"


def corpus(folder: Path, links: str | bytes | None = LINKS, **keys: Any) -> TextCorpus:
    (folder / "a.src").write_text(SRC, encoding="utf-8")
    (folder / "a.tgt").write_text(TGT, encoding="utf-8")
    if links is None:
        return TextCorpus(src=Path("a.src"), tgt=Path("a.tgt"), **keys)
    (folder / "a.align").write_bytes(links.encode() if isinstance(links, str) else links)
    return TextCorpus(src=Path("a.src"), tgt=Path("a.tgt"), alignments=Path("a.align"), **keys)


def store_of(folder: Path, tokenizers: TokenizerPair, *corpora: TextCorpus, name: str = "store") -> PairStore:
    build_store(folder / name, corpora, folder, "error", PairLimits(99, 99), tokenizers)
    return PairStore.open(folder / name)


def test_what_goes_in_comes_out_in_any_order(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    plain = corpus(tmp_path, None)
    store = store_of(tmp_path, tokenizers, corpus(tmp_path), plain)
    assert store.alignments is not None
    found = [format_links(alignment.sure) for alignment in store.alignments.read([2, 0, 1, 5])]
    assert found == ["0-2 1-0", "0-0 2-0", "", ""]


def test_data_without_alignments_is_as_it_was(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    store = store_of(tmp_path, tokenizers, corpus(tmp_path, None))
    assert store.alignments is None
    assert not list(store.folder.glob("align*"))
    assert BatchStream(store, tokenizers, BatchConfig(tokens=99), 1).batch(0, 0).alignment is None


def test_alignments_are_part_of_the_fingerprint(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    one = store_of(tmp_path, tokenizers, corpus(tmp_path), name="one")
    two = store_of(tmp_path, tokenizers, corpus(tmp_path, LINKS.replace("2-0", "1-0")), name="two")
    assert one.fingerprint != two.fingerprint


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n0-0\n\n0-x\n", r"a.align:4: '0-x' is not a link"),
        ("0-0\n1-0\n\n\n", r"a.align:2: links 1-0, but the source has 1 word"),
        ("0-1\n\n\n\n", r"a.align:1: links 0-1, but the target has 1 word"),
        ("0-0\n\n", r"a.align: has 2 lines, but .*a.src has 4"),
        (LINKS + "0-0\n0-0\n", r"a.src: has 4 lines, but .*a.align has 6"),
        ("", r"a.align: is empty, while .*a.src has 4 lines"),
        (b"0-0\n\xff\n\n\n", r"a.align:2: .* is not a link"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, tokenizers: TokenizerPair, links: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        store_of(tmp_path, tokenizers, corpus(tmp_path, links))


def test_a_batch_has_the_links_of_its_rows(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    store = store_of(tmp_path, tokenizers, corpus(tmp_path))
    stream = BatchStream(store, tokenizers, BatchConfig(tokens=99), 1)
    batch = stream.batch(0, 0)
    assert batch.alignment is not None
    assert batch.alignment.shape == (3, *batch.tgt_out.shape[1:], batch.src.shape[1])
    row = batch.examples.index(2)
    wanted = torch.zeros_like(batch.alignment[row])
    wanted[0, 1] = wanted[2, 0] = 1
    assert torch.equal(batch.alignment[row], wanted)
    assert batch.alignment[batch.examples.index(0), 0].tolist()[:3] == [0.5, 0, 0.5]
    first, second = batch.split()
    assert first.alignment is not None
    assert second.alignment is not None
    assert torch.equal(torch.cat([first.alignment, second.alignment]), batch.alignment)


def test_sampled_segmentations_carry_the_links_of_their_words(tmp_path: Path) -> None:
    words = ["unhouse", "houses", "house"]
    (tmp_path / "a.src").write_text(" ".join(words) + "\n", encoding="utf-8")
    (tmp_path / "a.tgt").write_text(" ".join(words) + "\n", encoding="utf-8")
    (tmp_path / "a.align").write_text("0-2 1-1 2-0\n", encoding="utf-8")
    own = TextCorpus(src=Path("a.src"), tgt=Path("a.tgt"), alignments=Path("a.align"))
    pieces = SentencePieceConfig(vocab_size=18, byte_fallback=False, sampling=0.5).train([" ".join(words)] * 3)
    pair = TokenizerPair(pieces, pieces)
    stream = BatchStream(store_of(tmp_path, pair, own), pair, BatchConfig(tokens=999), 1, sampling=True)
    seen = set()
    for epoch in range(8):
        batch = stream.batch(epoch, 0)
        assert batch.alignment is not None
        src, tgt = (pieces.tokens(ids[0].tolist())[:-1] for ids in (batch.src, batch.tgt_out))
        seen.add((len(src), len(tgt)))
        looks_at = batch.alignment[0, :-1, :-1]
        torch.testing.assert_close(looks_at.sum(dim=1), torch.ones(len(tgt)))
        second_word = next(place for place, token in enumerate(src) if place and token.startswith("▁"))
        assert looks_at[-1].nonzero().flatten().tolist() == list(range(second_word))
    assert len(seen) > 1


def test_files_of_other_data_are_refused(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    store = store_of(tmp_path, tokenizers, corpus(tmp_path))
    (store.folder / INDEX_FILE).write_bytes(b"")
    (store.folder / MANIFEST).unlink()
    write_manifest(store.folder, {"kind": "pairs"})
    with pytest.raises(CorruptFolder, match="its files are of different data"):
        PairStore.open(store.folder)
