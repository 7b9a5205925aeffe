"""The tokenizers of both sides: configuration, training, the saved folder."""

from pathlib import Path

import pytest

from qkv.core.errors import ConfigError, CorruptFolder, UsageError
from qkv.text import TextConfig, fingerprint, load_tokenizers

SRC, TGT = ["abba", "baba"], ["ɒ bː ɒ", "b ɒ b ɒ"]


def src() -> list[str]:
    return SRC


def tgt() -> list[str]:
    return TGT


@pytest.mark.parametrize("given", [{"src": "char"}, {"shared": "char", "src": "char"}])
def test_either_shared_or_both_sides(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="either shared, or both src and tgt"):
        TextConfig.model_validate(given)


@pytest.mark.parametrize(("given", "size"), [({}, 5), ({"tgt": "char"}, 5 + 4)])
def test_a_source_that_is_no_text_needs_no_tokenizer(given: dict[str, str], size: int, tmp_path: Path) -> None:
    config = TextConfig.model_validate(given)
    pair = config.train(src, tgt)
    assert pair.shared
    assert len(pair.tgt) == size
    config.save(pair, tmp_path)
    assert config.load(tmp_path).speaks_as(pair)


def test_a_shared_tokenizer_learns_from_both_sides_and_is_stored_once(tmp_path: Path) -> None:
    config = TextConfig.model_validate({"shared": {"kind": "char", "normalize": {"lowercase": True}}})
    pair = config.train(src, tgt)
    assert pair.shared
    assert 1 not in pair.src.encode("A bː")
    config.save(pair, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared", "text.json"]
    loaded = load_tokenizers(tmp_path)
    assert loaded.shared
    assert fingerprint(loaded.src) == fingerprint(pair.src)


def test_two_tokenizers_keep_to_their_sides(tmp_path: Path) -> None:
    config = TextConfig.model_validate({"src": "char", "tgt": "whitespace"})
    pair = config.train(src, tgt)
    assert not pair.shared
    config.save(pair, tmp_path)
    loaded = load_tokenizers(tmp_path)
    assert [loaded.src.encode("ab"), loaded.tgt.encode("bː b")] == [pair.src.encode("ab"), pair.tgt.encode("bː b")]
    assert fingerprint(loaded.src) == fingerprint(pair.src) != fingerprint(loaded.tgt) == fingerprint(pair.tgt)


def test_a_configuration_survives_its_folder(tmp_path: Path) -> None:
    config = TextConfig.model_validate({"src": "char", "tgt": {"kind": "bpe", "dropout": 0.1, "vocab_size": 270}})
    config.save(config.train(src, tgt), tmp_path)
    assert TextConfig.model_validate_json((tmp_path / "text.json").read_text(encoding="utf-8")) == config


def test_other_settings_than_those_trained_with_are_refused(tmp_path: Path) -> None:
    config = TextConfig.model_validate({"shared": "char"})
    config.save(config.train(src, tgt), tmp_path)
    for other in ({"kind": "char", "normalize": {"lowercase": True}}, {"kind": "whitespace"}):
        with pytest.raises(UsageError, match="was trained with"):
            TextConfig.model_validate({"shared": other}).load(tmp_path)


def test_sampling_may_change_after_training(tmp_path: Path) -> None:
    config = TextConfig.model_validate({"shared": {"kind": "bpe", "vocab_size": 270}})
    pair = config.train(src, tgt)
    config.save(pair, tmp_path)
    other = TextConfig.model_validate({"shared": {"kind": "bpe", "vocab_size": 270, "dropout": 0.5}})
    assert (config.samples, other.samples) == (False, True)
    assert fingerprint(other.load(tmp_path).src) == fingerprint(pair.src)


def test_a_folder_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(CorruptFolder, match="cannot be read"):
        load_tokenizers(tmp_path)
    (tmp_path / "text.json").write_text('{"shared": "nonsense"}', encoding="utf-8")
    with pytest.raises(CorruptFolder, match="not a configuration"):
        load_tokenizers(tmp_path)
