"""Train, dev and test; the hold-out; stores that are built once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.core.errors import DataError, UsageError
from qkv.data.config import PairsConfig
from qkv.data.parts import choose_holdout, data_parts, text_hash
from qkv.data.prepare import prepare_data
from qkv.data.readers import TextCorpus
from qkv.text.folder import TokenizerPair
from qkv.text.whitespace import WhitespaceConfig

WriteText = Callable[..., TextCorpus]

WORDS = [(f"w{i % 60}", f"x{i}") for i in range(100)]
"""100 pairs of 60 sources: 40 of them have two targets."""


def config(root: Path, **more: object) -> PairsConfig:
    return PairsConfig.model_validate({"root": root, "train": {"kind": "text", "src": "t.src", "tgt": "t.tgt"}, **more})


class TestHoldout:
    @pytest.mark.parametrize("pairs", [1, 2, 17, 50])
    def test_exact_and_disjoint_by_source(
        self, tmp_path: Path, write_text: WriteText, tokenizers: TokenizerPair, pairs: int
    ) -> None:
        write_text("t", WORDS)
        data = config(tmp_path, holdout=pairs)
        stores = prepare_data(data, data_parts(data), tokenizers, tmp_path / "stores")
        train, dev = ([p for chunk in stores[name].chunks() for p in chunk] for name in ("train", "dev"))
        assert len(dev) == pairs
        assert sorted(train + dev) == sorted(WORDS)
        assert not {src for src, _ in train} & {src for src, _ in dev}
        assert stores["train"].report.held_out == pairs
        assert stores["dev"].report.held_out == 100 - pairs

    def test_white_space_around_a_source_makes_no_other_source(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", [(f" w{i % 2 * 3}" + " " * i, "x") for i in range(10)])
        parts = data_parts(config(tmp_path, holdout=5))
        sides = [{text.strip() for text in parts[name].texts("src")} for name in ("train", "dev")]
        assert sorted(map(len, sides)) == [1, 1]
        assert not sides[0] & sides[1]

    def test_the_order_of_the_file_does_not_matter(self, tmp_path: Path, write_text: WriteText) -> None:
        corpora = [write_text("a", WORDS), write_text("b", WORDS[::-1])]
        first, second = (choose_holdout([corpus], tmp_path, "error", 20) for corpus in corpora)
        assert first == second

    def test_weights_count_in_train_only(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", WORDS)
        train = {"kind": "text", "src": "t.src", "tgt": "t.tgt", "weight": 3}
        parts = data_parts(PairsConfig.model_validate({"root": tmp_path, "train": train, "holdout": 5}))
        assert [parts[name].corpora[0].weight for name in ("train", "dev")] == [3, 1]

    def test_more_than_there_is(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", [*WORDS, ("", "")])
        with pytest.raises(UsageError, match=r"data\.holdout is 100, but data\.train has 100 pairs"):
            data_parts(config(tmp_path, holdout=100))

    def test_one_source_cannot_be_parted(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", [("same", f"x{i}") for i in range(10)])
        with pytest.raises(UsageError, match=r"give data\.dev"):
            data_parts(config(tmp_path, holdout=3))

    def test_hash_is_fixed(self) -> None:
        """A change here moves pairs between train and dev of the same data."""
        assert text_hash("hello") == 0x7D34E501A8EDB6A7


class TestParts:
    def test_missing_file_names_the_key(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", WORDS)
        with pytest.raises(DataError, match=r"none\.tgt: no such file; correct data\.dev\.tgt or data\.root"):
            data_parts(config(tmp_path, dev={"kind": "text", "src": "t.src", "tgt": "none.tgt"}))

    def test_missing_file_in_a_list(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", WORDS)
        train = [{"kind": "text", "src": "t.src", "tgt": "t.tgt"}, {"kind": "tsv", "path": "none.tsv"}]
        with pytest.raises(DataError, match=r"none\.tsv: no such file; correct data\.train\.1\.path"):
            data_parts(PairsConfig.model_validate({"root": tmp_path, "train": train}))

    def test_folder_for_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"is a folder, not a file; correct data\.train\.path"):
            data_parts(PairsConfig.model_validate({"root": tmp_path, "train": {"kind": "tsv", "path": "."}}))

    def test_texts_of_a_side(self, tmp_path: Path, write_text: WriteText) -> None:
        write_text("t", WORDS)
        part = data_parts(config(tmp_path))["train"]
        assert list(part.texts("src")) == [src for src, _ in WORDS]
        assert list(part.texts("tgt")) == [tgt for _, tgt in WORDS]


class TestPrepare:
    def prepare(self, data: PairsConfig, tokenizers: TokenizerPair, folder: Path) -> tuple[bool, str]:
        """Whether the store of train was built, and its fingerprint."""
        calls: list[int] = []
        stores = prepare_data(data, data_parts(data), tokenizers, folder, lambda done, total: calls.append(done))
        return bool(calls), stores["train"].fingerprint

    def test_built_again_only_when_something_changed(
        self, tmp_path: Path, write_text: WriteText, tokenizers: TokenizerPair
    ) -> None:
        write_text("t", WORDS)
        data, folder = config(tmp_path), tmp_path / "stores"
        built, first = self.prepare(data, tokenizers, folder)
        assert built
        assert self.prepare(data, tokenizers, folder) == (False, first)
        assert self.prepare(config(tmp_path, max_src_tokens=99), tokenizers, folder)[0]
        other = TokenizerPair(WhitespaceConfig().train(["w1"]), tokenizers.tgt)
        assert self.prepare(data, other, folder)[0]
        write_text("t", WORDS[:-1])
        built, changed = self.prepare(data, tokenizers, folder)
        assert built
        assert changed != first

    def test_damaged_store_is_built_again(
        self, tmp_path: Path, write_text: WriteText, tokenizers: TokenizerPair
    ) -> None:
        write_text("t", WORDS)
        data, folder = config(tmp_path), tmp_path / "stores"
        _, first = self.prepare(data, tokenizers, folder)
        (folder / "train" / "text.bin").write_bytes(b"")
        assert self.prepare(data, tokenizers, folder) == (True, first)
