"""Decoding what was encoded gives the documented normal form, for any text."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import (
    BytePairConfig,
    CharacterConfig,
    NormalizeConfig,
    SentencePieceConfig,
    Tokenizer,
    TokenizerConfig,
    WhitespaceConfig,
)
from qkv.text.special import NAMES

ALPHABET = "abcdeéß .,<>/s\u2581"
TEXTS = [ALPHABET, "abba cede ebbe", "a b c d e", "</s> abc"] * 3
FORMS = {
    "usual": NormalizeConfig(),
    "nothing": NormalizeConfig(unicode="none", whitespace="keep"),
    "much": NormalizeConfig(unicode="NFKC", lowercase=True),
}
LOSSLESS = {
    "bpe": BytePairConfig(vocab_size=280, dropout=0.3),
    "sentencepiece bpe": SentencePieceConfig(vocab_size=285, sampling=0.3),
    "sentencepiece unigram": SentencePieceConfig(vocab_size=280, model="unigram", sampling=0.3),
}


def trained(configs: dict[str, TokenizerConfig]) -> list[object]:
    """Each configuration with each normal form, trained, as pytest parameters."""
    return [
        pytest.param(config.model_copy(update={"normalize": form}).train(TEXTS), id=f"{kind}, {name}")
        for kind, config in configs.items()
        for name, form in FORMS.items()
    ]


def check_round_trip(tokenizer: Tokenizer, text: str) -> None:
    normal = tokenizer.normalize(text)
    for ids in (tokenizer.encode(text), tokenizer.sample(text, Random(0))):
        assert tokenizer.decode(ids) == normal
        assert all(len(NAMES) <= i < len(tokenizer) for i in ids)
    assert tokenizer.normalize(normal) == normal
    assert tokenizer.encode(normal) == tokenizer.encode(text)


@pytest.mark.parametrize("tokenizer", trained(LOSSLESS))
@given(text=st.text() | st.text(alphabet=ALPHABET + "\t\n\u3000雪\u0301\x00"))
def test_tokenizers_with_bytes_bring_back_any_text(tokenizer: Tokenizer, text: str) -> None:
    check_round_trip(tokenizer, text)


@pytest.mark.parametrize("tokenizer", trained({"char": CharacterConfig()}))
@given(text=st.text(alphabet=ALPHABET))
def test_characters_bring_back_text_of_known_characters(tokenizer: Tokenizer, text: str) -> None:
    check_round_trip(tokenizer, text)


@pytest.mark.parametrize("tokenizer", trained({"whitespace": WhitespaceConfig()}))
@given(text=st.lists(st.sampled_from(["abba", "cede", "a", "b", " ", "\t", "\u3000"])).map(" ".join))
def test_words_bring_back_text_of_known_words(tokenizer: Tokenizer, text: str) -> None:
    check_round_trip(tokenizer, text)
