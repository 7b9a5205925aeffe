"""Long texts: nothing is lost, parts fit, sentences stay whole where they can."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.core.errors import UsageError
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.text import Tokenizer, WhitespaceConfig
from qkv.text.character import CharacterConfig
from qkv.text.normalize import NormalizeConfig
from qkv.text.whitespace import WhitespaceTokenizer
from qkv.translate.splitting import Known, Splitter, SplitText
from qkv.translate.translator import Translator
from tests.support.small import WORDS
from tests.support.speaker import SHORT, sentences, speaker

CHARACTERS: Tokenizer = CharacterConfig().train(["abc ABC.,!?\n"])
SEVERAL: Tokenizer = WhitespaceConfig().train(["a b c d."])


def put_together(split: SplitText) -> str:
    return "".join(part + gap for part, gap in zip(split.parts, [*split.gaps, ""], strict=True))


def sentences_of(text: str) -> list[str]:
    """Its parts, if the model can read everything but knows short texts only."""
    return Splitter(CHARACTERS, None, Known(2)).split(text).parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It rains. Go in!  Why? Because.", ["It rains.", "Go in!", "Why?", "Because."]),
        ('He said "No." Then he left...  And so on', ['He said "No."', "Then he left...", "And so on"]),
        (
            "Dr. Smith, e.g. J. Miller, came on the 3. May. Yes.",
            ["Dr. Smith, e.g. J. Miller, came on the 3. May.", "Yes."],
        ),
        ('"Really?" she asked. "Yes."', ['"Really?" she asked.', '"Yes."']),
        ("one line\n\nand another", ["one line", "and another"]),
        ("下雨了。我们进去吧！好", ["下雨了。", "我们进去吧！", "好"]),
        ("3.14 is pi. v1.2 too", ["3.14 is pi. v1.2 too"]),
        ("One sentence, however long it is; it stays.", ["One sentence, however long it is; it stays."]),
    ],
)
def test_where_sentences_end(text: str, parts: list[str]) -> None:
    assert sentences_of(text) == parts


@pytest.mark.parametrize("tokenizer", [CHARACTERS, SEVERAL], ids=["char", "whitespace"])
@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="ab C.,;!?\n。、", min_size=1, max_size=80).map(str.strip).filter(bool),
    longest=st.integers(2, 12),
    known=st.none() | st.builds(Known, st.integers(2, 12), st.integers(2, 12)),
)
def test_nothing_is_lost_and_every_part_fits(
    tokenizer: Tokenizer, text: str, longest: int, known: Known | None
) -> None:
    split = Splitter(tokenizer, longest, known).split(text)
    assert put_together(split) == text
    assert (split.at is None) == (len(split.parts) == 1)
    for part in split.parts:
        assert part.strip()
        assert len(tokenizer.encode(part)) + 1 <= longest


def test_each_sentence_is_a_part_and_short_ones_stand_together() -> None:
    text = "a b cc. A bb. Aa. B c dd."
    assert Splitter(SEVERAL, 4).split(text).parts == ["a b cc.", "A bb.", "Aa.", "B c dd."]
    assert Splitter(SEVERAL, 4, Known(9, 4)).split(text).parts == ["a b cc.", "A bb. Aa.", "B c dd."]
    assert Splitter(SEVERAL, 40, Known(9, 8)).split(text).parts == ["a b cc. A bb. Aa.", "B c dd."]


def test_pieces_of_a_sentence_are_as_large_as_the_model_knows() -> None:
    assert Splitter(SEVERAL, 6, Known(4, 2)).split("a b c a b c a b").parts == ["a b c", "a b c", "a b"]
    assert Splitter(SEVERAL, 9, Known(4, 2)).split("a b c a b c a b").parts == ["a b c a b c a b"]
    assert Splitter(SEVERAL, 4).split("a b c, a b c, a b").parts == ["a b c,", "a b c,", "a b"]
    assert Splitter(SEVERAL, 4).split("a b, c a b c, a b c a").parts == ["a b, c", "a b c,", "a b c", "a"]
    assert Splitter(CHARACTERS, 6).split("ab ab ab").parts == ["ab ab", "ab"]
    assert Splitter(CHARACTERS, 6).split("abcabcabc").parts == ["abcab", "cabc"]


class Dear(WhitespaceTokenizer):
    """A tokenizer for which words cost more together than alone."""

    def encode(self, text: str) -> list[int]:
        return [0] * (1 if text == "a a" else len(text.split()) ** 2)


def test_what_has_more_tokens_together_is_taken_apart() -> None:
    split = Splitter(Dear([], NormalizeConfig()), 6).split("ab " * 7 + "ab")
    assert split.parts == ["ab ab"] * 4


@pytest.mark.parametrize(
    ("text", "at"), [("a bb. A bb.", "sentence"), ("a b, a b", "clause"), ("a b a b", "word"), ("aa bb! B", "sentence")]
)
def test_it_says_where(text: str, at: str) -> None:
    assert Splitter(SEVERAL, 3).split(text).at == at
    assert Splitter(CHARACTERS, 3).split("abab").at == "character"


def test_a_million_characters_without_a_space() -> None:
    split = Splitter(CHARACTERS, 1024).split("a" * 1_000_000)
    assert len(split.parts) == pytest.approx(1_000_000 / 1023, rel=0.01)


def document(count: int) -> str:
    return " ".join(f"{text}." for text in sentences(count, 5))


def test_the_parts_are_translated_like_texts() -> None:
    text = " ".join(random.Random(1).choices(WORDS, k=23))
    for search in (GreedyConfig(**SHORT), BeamConfig(size=3, **SHORT)):
        translator = Translator(speaker(), "torch", search, max_src_tokens=9)
        whole, short = translator.translate([text, "aa ab"], nbest=search.rows, alignment=True)
        assert (whole.parts, whole.split_at, short.parts) == (3, "word", 1)
        each = translator.translate(
            [" ".join(text.split()[n : n + 8]) for n in (0, 8, 16)], search.rows, alignment=True
        )
        assert whole.text == " ".join(one.text for one in each)
        assert whole.score == pytest.approx(sum(one.score for one in each))
        assert whole.token_scores == pytest.approx([score for one in each for score in one.token_scores], abs=1e-5)
        assert whole.src_tokens == [token for one in each for token in one.src_tokens]
        assert whole.alignment is not None
        assert len(whole.alignment) == len(whole.tokens)
        for row in whole.alignment:
            assert len(row) == len(whole.src_tokens)
            assert sum(row) == pytest.approx(1, abs=1e-4)
        last = len(each[0].tokens) + len(each[1].tokens)
        assert all(sum(row[:18]) == 0 for row in whole.alignment[last:])
        for rank, other in enumerate(whole.alternatives):
            assert other.text == " ".join(one.alternatives[rank].text for one in each)


def test_paragraphs_stay() -> None:
    translator = Translator(speaker(), "torch", GreedyConfig(**SHORT), max_src_tokens=3)
    assert re.sub(r"[abc ]+", "x", translator.translate(["aa ab\n\nac ba"])[0].text) == "x\n\nx"


def test_a_model_that_knows_short_texts_gets_sentences() -> None:
    """What it was trained on is no limit for one sentence."""
    saved = speaker()
    saved = type(saved)(
        saved.model, saved.tokenizers, saved.config.model_copy(update={"longest_src": 6, "median_src": 6})
    )
    translator = Translator(saved, "torch", GreedyConfig(**SHORT))
    several, one = translator.translate(["aa ab ac. Aa ba. Bb bc", " ".join(WORDS * 2)])
    assert (several.parts, several.split_at) == (2, "sentence")
    assert (one.parts, one.split_at) == (1, None)


def test_overlap_reads_each_part_behind_the_one_before() -> None:
    """The second part is what follows a forced beginning."""
    text = " ".join(random.Random(2).choices(WORDS, k=12))
    first, second = (" ".join(text.split()[n : n + 4]) for n in (0, 4))
    search = GreedyConfig(**SHORT)
    found = Translator(speaker(), "torch", search, max_src_tokens=10, overlap=True).translate([text], alignment=True)[0]
    plain = Translator(speaker(), "torch", search)
    beginning = plain.translate([first])[0]
    both = plain.translate([f"{first} {second}"], prefixes=[beginning.text], alignment=True)[0]
    assert found.parts == 3
    rest = both.tokens[len(beginning.tokens) :]
    assert found.tokens[: len(both.tokens)] == [*beginning.tokens, *rest]
    assert found.alignment is not None
    assert both.alignment is not None
    place = len(beginning.tokens)
    assert found.alignment[place][5:10] == pytest.approx(both.alignment[place][4:], abs=1e-5)
    assert found.src_tokens[5:10] == [*second.split(), "</s>"]
    alone = Translator(speaker(), "torch", search, max_src_tokens=5).translate([text])[0]
    assert alone.text != found.text


def test_a_batch_of_long_and_short_texts_is_that_of_each_alone() -> None:
    texts = ["aa", "", " ".join(WORDS * 3), *sentences(5), document(9), "ab ac"]
    for overlap in (False, True):
        translator = Translator(speaker(), "torch", GreedyConfig(**SHORT), max_src_tokens=6, overlap=overlap)
        together = translator.translate(texts)
        assert [one.text for one in together] == [translator.translate([text])[0].text for text in texts]
        assert [one.parts > 1 for one in together][:3] == [False, False, True]


def test_what_is_refused() -> None:
    translator = Translator(speaker(), "torch", BeamConfig(), max_src_tokens=4)
    with pytest.raises(UsageError, match="cannot take required words"):
        translator.translate([" ".join(WORDS)], required=[["aa"]])
    begun = translator.translate([" ".join(WORDS)], prefixes=["bb bc"])[0]
    assert begun.tokens[:2] == ["bb", "bc"]
    with pytest.raises(UsageError, match="do not go together"):
        Translator(speaker(), "torch", BeamConfig(length_factor=2), overlap=True).translate(["aa"])
