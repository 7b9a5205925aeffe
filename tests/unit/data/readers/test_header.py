"""A header in a table that should have none is noticed, and ordinary first lines are not taken for one."""

import os
from pathlib import Path
from typing import Any

import pytest

from qkv.data.readers import TsvCorpus
from qkv.data.readers.table import looks_like_header

SENTENCES = [("I like the old house .", "Ich mag das alte Haus ."), ("we are here now", "wir sind jetzt hier")]
WORDS = [("house", "H AW1 S"), ("abbey", "AE1 B IY0")]
REVERSED = [("abc", "cba"), ("feed", "deef")]


@pytest.mark.parametrize(
    "first",
    [
        ("source", "target"),
        ("Source", "Target"),
        ("English", "Deutsch"),
        ("en", "de"),
        ("en", "it"),
        ("src_text", "tgt_text"),
        ("en_text", "German"),
        ("x", "y"),
        ("sentence1", "sentence2"),
        ("englishSentence", "germanSentence"),
        ("source text", "target text"),
        (" input ", "output"),
        ("word", "pron"),
        ("commands", "actions"),
    ],
)
@pytest.mark.parametrize("others", [SENTENCES, WORDS, REVERSED], ids=["sentences", "words", "letters"])
def test_a_header_is_noticed(first: tuple[str, str], others: list[tuple[str, str]]) -> None:
    assert looks_like_header(first, others)


def test_unknown_names_above_sentences_are_noticed() -> None:
    assert looks_like_header(("standard", "dialect"), SENTENCES)


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (("Go .", "Geh ."), SENTENCES),
        (("Hello", "Hallo"), SENTENCES),
        (("word", "W ER1 D"), WORDS),
        (("abacus", "AE1 B AH0 K AH0 S"), WORDS),
        (("standard", "dialect"), WORDS),
        (("deaf", "faed"), REVERSED),
        (("no", "nein"), WORDS),
        (("yes", "ja"), WORDS),
        (("", ""), SENTENCES),
        (("text", "text"), [("text", "text"), ("text", "text")]),
    ],
)
def test_ordinary_lines_are_not(first: tuple[str, str], others: list[tuple[str, str]]) -> None:
    assert not looks_like_header(first, others)


@pytest.mark.parametrize(("keys", "noticed"), [({}, True), ({"header": True}, False), ({"header": False}, False)])
def test_who_says_whether_there_is_a_header_is_believed(keys: dict[str, Any], noticed: bool, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("english\tgerman\nyes\tja\n")
    assert TsvCorpus(path=Path("a.tsv"), **keys).possible_header(tmp_path) is noticed


@pytest.mark.skipif("QKV_DATA" not in os.environ, reason="the corpora are not free to distribute")
@pytest.mark.parametrize("name", ["eng_us_train", "eng_us_dev", "hun_train", "hun_test"])
def test_real_tables_have_none(name: str) -> None:
    root = Path(os.environ["QKV_DATA"]) / "sigmorphon2021-g2p"
    assert not TsvCorpus(path=Path(f"{name}.tsv")).possible_header(root)
