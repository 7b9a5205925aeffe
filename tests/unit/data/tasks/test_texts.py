"""Texts as data: readers and their errors, long texts, packed rows, the order of batches, `qkv data check`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.core.errors import ConfigError, DataError, UsageError
from qkv.data.config import BatchConfig
from qkv.data.tasks.base import task_of
from qkv.data.tasks.text_store import TextStore, split_text
from qkv.data.tasks.text_stream import PackedStream, TextStream, packed_rows
from qkv.data.tasks.texts import TextsConfig
from qkv.text.character import CharacterConfig
from qkv.text.folder import TokenizerPair
from qkv.text.sentence_piece import SentencePieceConfig
from tests.support.language import SENTENCES, words

TOKENIZERS = words()
BATCH = BatchConfig(tokens=64)


def config(folder: Path, content: str = "", **changes: Any) -> TextsConfig:
    content = content or "\n".join(SENTENCES[:40]) + "\n"
    (folder / "texts.txt").write_bytes(content.encode("utf-8", "surrogateescape"))
    return TextsConfig.model_validate({"root": folder, "train": {"path": "texts.txt"}, "max_tokens": 16, **changes})


def prepared(data: TextsConfig, folder: Path) -> TextStore:
    task = task_of(data)
    store = task.prepare(task.parts(), TOKENIZERS, folder / "data")["train"]
    assert isinstance(store, TextStore)
    return store


def stream(data: TextsConfig, folder: Path) -> TextStream:
    found = task_of(data).stream(prepared(data, folder), TOKENIZERS, BATCH, seed=1)
    assert isinstance(found, TextStream)
    return found


@pytest.mark.parametrize(
    ("corpus", "content", "texts"),
    [
        ({"kind": "lines"}, "the cat\n\nthe dog\n", ["the cat", "the dog"]),
        ({"kind": "documents"}, "\nthe\ncat\n\n\nthe dog", ["the\ncat", "the dog"]),
        ({"kind": "jsonl", "text": "t"}, '{"t": "the cat"}\n\n{"t": "the dog"}\n', ["the cat", "the dog"]),
    ],
)
def test_every_kind_of_file(tmp_path: Path, corpus: dict[str, str], content: str, texts: list[str]) -> None:
    store = prepared(config(tmp_path, content, train={"path": "texts.txt", **corpus}), tmp_path)
    assert store.texts(range(len(store))) == texts
    assert store.num_tokens == store.num_tgt_tokens == 6


@pytest.mark.parametrize(
    ("corpus", "content", "sentence"),
    [
        ({"kind": "lines"}, "the\n\udcff\n", r"texts.txt:2:1: not valid UTF-8 text"),
        ({"kind": "jsonl"}, '{"text": 1}\n', r"texts.txt:1: the value of 'text' is not a string"),
        ({"kind": "jsonl"}, "{\n", r"texts.txt:1: is not JSON"),
        ({"kind": "jsonl"}, '{"a": "b"}\n', r"texts.txt:1: has no key 'text'; its keys are 'a'"),
        ({"kind": "lines"}, "\n\n", r"texts.txt: 0 usable texts"),
        ({"path": "none.txt"}, "a\n", r"none.txt: no such file; correct data.train.path or data.root"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, corpus: dict[str, str], content: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        prepared(config(tmp_path, content, train={"path": "texts.txt", **corpus}), tmp_path)


def test_dev_and_holdout_are_one_or_the_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give dev or holdout, not both"):
        config(tmp_path, holdout=3, dev={"path": "texts.txt"})


def test_a_long_text_is_split_at_spaces_and_nothing_is_lost(tmp_path: Path) -> None:
    text = " ".join(SENTENCES[:9])
    pieces = split_text(text, TOKENIZERS.src, 7)
    assert "".join(pieces) == text
    assert max(len(TOKENIZERS.src.encode(piece)) for piece in pieces) <= 7
    assert [len(piece.split()) for piece in pieces] == [7] * 7 + [5]
    characters = CharacterConfig().train([text])
    for longest in (1, 2, 7, 30):
        found = split_text(text + "x" * 50, characters, longest)
        assert "".join(found) == text + "x" * 50
        assert max(map(len, characters.encode_batch(found))) <= longest
    assert split_text("the cat sat " + "x" * 8, characters, 6) == ["the", " cat", " sat", " xxxxxx", "xx"]
    store = prepared(config(tmp_path, text + "\n"), tmp_path)
    assert int(store.src_len.max()) <= 16
    assert [word for piece in store.texts(range(len(store))) for word in piece.split()] == text.split()
    assert store.report.lines()[1] == "1 longer than data.max_tokens, so they were split"


@pytest.mark.parametrize("packed", [False, True])
def test_only_the_last_piece_of_a_long_text_learns_to_end(tmp_path: Path, packed: bool) -> None:
    long, short = " ".join(SENTENCES[:9]), SENTENCES[9]
    found = stream(config(tmp_path, f"{short}\n{long}\n{short}\n", packed=packed), tmp_path)
    pieces = len(found.store) - 2
    assert pieces > 2
    assert found.store.ends(range(len(found.store))) == [True, *[False] * (pieces - 1), True, True]
    batches = [found.batch(0, index) for index in range(len(found.plan(0)))]
    learned = [i for batch in batches for i in batch.tgt_out[batch.tgt_weight > 0].tolist()]
    assert learned.count(TOKENIZERS.src.special.eos) == 3
    assert len(learned) == 3 + len(TOKENIZERS.src.encode(long)) + 2 * len(TOKENIZERS.src.encode(short))
    frequencies = task_of(config(tmp_path)).frequencies(found.store, TOKENIZERS)
    assert frequencies[TOKENIZERS.src.special.eos] == 3


@pytest.mark.parametrize("packed", [False, True])
def test_an_epoch_has_every_text_once_in_an_order_of_its_own(tmp_path: Path, packed: bool) -> None:
    found = stream(config(tmp_path, packed=packed), tmp_path)
    assert isinstance(found, PackedStream) is packed
    epochs = []
    for epoch in range(2):
        batches = [found.batch(epoch, index) for index in range(len(found.plan(epoch)))]
        tokens = [int(i) for batch in batches for i in batch.tgt_out[batch.tgt_weight > 0].tolist()]
        assert len(tokens) == 40 * 7
        assert all(batch.tgt_in.numel() <= 64 for batch in batches)
        epochs.append(tokens)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    # Random access: any batch without those before it; and the rows of two workers are those of one.
    fresh = stream(config(tmp_path, packed=packed), tmp_path)
    whole = found.batch(1, 1)
    assert fresh.batch(1, 1).tgt_out.tolist() == whole.tgt_out.tolist()
    shares = [found.batch(1, 1, rank, 2) for rank in range(2)]
    assert sorted(example for part in shares for example in part.examples) == sorted(whole.examples)


@pytest.mark.parametrize("packed", [False, True])
def test_the_number_of_batches_follows_batch_pairs(tmp_path: Path, packed: bool) -> None:
    data, few = config(tmp_path, packed=packed), BatchConfig(tokens=64, pairs=2)
    task, store = task_of(data), prepared(data, tmp_path)
    batches = len(task.stream(store, TOKENIZERS, few, seed=1).plan(0))
    assert task.batches(store, few) == pytest.approx(batches, rel=0.15)
    assert task.batches(store, BATCH) < 0.6 * batches


def test_rows_are_as_full_as_they_can_be() -> None:
    assert packed_rows(np.array([3, 4, 5, 9, 2, 2], dtype=np.uint32), 9).tolist() == [0, 2, 3, 4, 6]


def test_a_row_must_fit_into_a_batch(tmp_path: Path) -> None:
    store = prepared(config(tmp_path, packed=True), tmp_path)
    with pytest.raises(UsageError, match=r"batch.tokens is 8, but a packed row has 16 tokens"):
        PackedStream(store, TOKENIZERS.src, BatchConfig(tokens=8), 1).plan(0)
    with pytest.raises(UsageError, match=r"batch.tokens is 6, but the longest text has 7 .* lower data.max_tokens$"):
        TextStream(store, TOKENIZERS.src, BatchConfig(tokens=6), 1).plan(0)


def test_data_check_speaks_for_texts(tmp_path: Path) -> None:
    data = config(tmp_path, "\n".join([*SENTENCES[:9], SENTENCES[0]]) + "\n", dev={"path": "texts.txt"})
    task = task_of(data)
    stores = task.prepare(task.parts(), TOKENIZERS, tmp_path / "data")
    report = task.check(stores, TOKENIZERS, BATCH)
    said = report.with_advice(["do this"]).render()
    assert "train: 10 texts of 10 that were read, 70 tokens" in said
    assert "  1 exact duplicates" in said
    assert "dev and train: 10 of 10 texts of dev are in train" in said
    assert f"  {SENTENCES[0]}" in said
    assert said.endswith("advice:\n  do this\n")
    assert report.as_dict()["parts"]["dev"]["lengths"]["max"] == 7


def test_data_check_compares_a_holdout_and_test_with_train(tmp_path: Path) -> None:
    data = config(tmp_path, holdout=4, test={"path": "texts.txt"})
    task = task_of(data)
    stores = task.prepare(task.parts(with_test=True), TOKENIZERS, tmp_path / "data")
    overlaps = task.check(stores, TOKENIZERS, BATCH).overlaps
    assert (overlaps["dev"].pairs, overlaps["dev"].total) == (0, 4)
    assert (overlaps["test"].pairs, overlaps["test"].total) == (36, 40)


def test_rows_with_sampled_pieces_are_never_too_long(tmp_path: Path) -> None:
    """A text may have more pieces when they are sampled; the texts of a row still fit into it, most of them sampled."""
    pieces = SentencePieceConfig(model="bpe", vocab_size=60, byte_fallback=False, sampling=0.5).train(SENTENCES * 4)
    tokenizers = TokenizerPair(pieces, pieces)
    task = task_of(config(tmp_path, max_tokens=32, packed=True))
    store = task.prepare(task.parts(), tokenizers, tmp_path / "data")["train"]
    stream = task.stream(store, tokenizers, BatchConfig(tokens=64), seed=1, sampling=True)
    assert isinstance(stream, PackedStream)
    batches = [stream.batch(0, index) for index in range(len(stream.plan(0)))]
    assert max(batch.tgt_in.shape[1] for batch in batches) <= 32
    tokens = sum(batch.num_tgt_tokens for batch in batches)
    assert tokens > 1.1 * store.num_tokens
