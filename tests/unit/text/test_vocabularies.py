"""Characters and words looked up in a list, and the sample of a long stream."""

import json
from collections import Counter
from pathlib import Path

import pytest

from qkv.core.errors import CorruptFolder, UsageError
from qkv.text import CharacterConfig, NormalizeConfig, WhitespaceConfig
from qkv.text.reservoir import reservoir
from qkv.text.special import NAMES, SPECIAL
from qkv.text.vocabulary import VOCABULARY


def test_special_ids_are_the_first_and_named() -> None:
    names = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
    assert {field: NAMES[getattr(SPECIAL, field)] for field in names} == names
    assert SPECIAL.control == {0, 2, 3, 4}


def test_characters_are_ordered_by_count_then_by_themselves() -> None:
    tokenizer = CharacterConfig().train(["bb a", "b c"])
    assert tokenizer.tokens(range(len(tokenizer))) == [*NAMES, "b", "▁", "a", "c"]
    assert tokenizer.encode("a b") == [7, 6, 5]
    assert tokenizer.encode("z") == [SPECIAL.unk]


def test_words_are_what_stands_between_white_space() -> None:
    config = WhitespaceConfig(normalize=NormalizeConfig(whitespace="keep"))
    tokenizer = config.train(["ɒ bː  ɒ", "ɒ\tn"])
    assert tokenizer.encode(" ɒ  n\n") == [5, 7]
    assert tokenizer.decode([2, 5, 1, 7, 3, 0]) == "ɒ ⁇ n"
    assert tokenizer.normalize(" ɒ  n\n") == "ɒ n"


def test_rare_words_are_unknown_and_the_size_is_kept() -> None:
    texts = ["a a a b b c"]
    assert len(WhitespaceConfig(min_count=2).train(texts)) == len(NAMES) + 2
    assert WhitespaceConfig(max_size=6).train(texts).encode("a b") == [5, SPECIAL.unk]
    with pytest.raises(UsageError, match="lower min_count"):
        WhitespaceConfig(min_count=9).train(texts)


def test_a_word_that_spells_a_special_name_is_unknown() -> None:
    tokenizer = WhitespaceConfig().train(["</s> <pad> a <unk>"] * 3)
    assert tokenizer.encode("</s> <pad> a <unk>") == [1, 1, 5, 1]


@pytest.mark.parametrize(
    "content", ["{}", "[1]", json.dumps([*NAMES, "a", "a"]), json.dumps(["a", *NAMES]), "[", "\xff"]
)
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, content: str) -> None:
    CharacterConfig().train(["ab"]).save(tmp_path)
    (tmp_path / VOCABULARY).write_bytes(content.encode("latin-1"))
    with pytest.raises(CorruptFolder, match=VOCABULARY):
        CharacterConfig().load(tmp_path)


def test_the_reservoir_keeps_a_short_stream_and_samples_a_long_one_fairly() -> None:
    assert reservoir("abc", 3) == ["a", "b", "c"]
    long = [str(i) for i in range(10_000)]
    kept = reservoir(iter(long), 2_000)
    assert kept == reservoir(iter(long), 2_000)
    assert len(set(kept)) == 2_000
    tenths = Counter(int(text) // 1000 for text in kept)
    assert all(abs(tenths[i] - 200) < 60 for i in range(10))  # 60 is more than four standard deviations
