"""The Pharaoh format, and links of words as links of tokens."""

import numpy as np
import pytest

from qkv.core.errors import DataError
from qkv.data.alignments.pharaoh import Alignment, format_links, parse_alignment
from qkv.data.alignments.tokens import alignment_matrices, count_words, words_of
from qkv.text import BytePairConfig, SentencePieceConfig
from qkv.text.character import CharacterConfig
from qkv.text.tokenizer import Tokenizer
from qkv.text.whitespace import WhitespaceConfig

TEXT = "the unbelievable houses, of the unhouse"


def links(*sure: tuple[int, int]) -> Alignment:
    return Alignment(frozenset(sure))


def test_links_come_back_in_order() -> None:
    found = parse_alignment(" 1-2  0-0 0-0 10-3 1?1", "here:1")
    assert found == Alignment(frozenset({(0, 0), (1, 2), (10, 3)}), frozenset({(1, 1)}), "here:1")
    assert format_links(found.sure) == "0-0 1-2 10-3"
    assert parse_alignment("", "here:2").sure == frozenset()


@pytest.mark.parametrize("text", ["0-", "-0", "0-0-0", "a-b", "0 - 0", "1-\u0662", "0/1", "-1-0", "9999999999-0"])
def test_what_is_no_link_is_named_with_its_line(text: str) -> None:
    with pytest.raises(DataError, match=r"^train.align:7: .* is not a link; write source-target"):
        parse_alignment(text, "train.align:7")


def test_a_link_outside_the_pair_is_refused() -> None:
    alignment = parse_alignment("0-0 2-1", "a:3")
    alignment.check(3, 2)
    with pytest.raises(DataError, match=r"^a:3: links 2-1, but the source has 2 word"):
        alignment.check(2, 2)
    with pytest.raises(DataError, match="the target has 1 word"):
        alignment.check(3, 1)


def tokenizer(kind: str) -> Tokenizer:
    pieces = SentencePieceConfig(vocab_size=26, byte_fallback=False)
    configs = {
        "whitespace": WhitespaceConfig(),
        "char": CharacterConfig(),
        "sentencepiece": pieces,
        "bpe": BytePairConfig(vocab_size=270),
    }
    return configs[kind].train([TEXT])


@pytest.mark.parametrize("kind", ["whitespace", "sentencepiece", "bpe"])
def test_a_word_is_what_stands_between_spaces(kind: str) -> None:
    own = tokenizer(kind)
    tokens = own.tokens(own.encode(TEXT))
    words = words_of(tokens)
    assert len(tokens) > 6 or kind == "whitespace"
    joined = ["".join(t for t, w in zip(tokens, words, strict=True) if w == word) for word in range(6)]
    assert [word.removeprefix("▁") for word in joined] == TEXT.split()
    assert count_words(tokens) == 6


def test_characters_are_words_of_their_own() -> None:
    own = tokenizer("char")
    assert words_of(own.tokens(own.encode("the un"))) == [0, 1, 2, 3, 4, 5]
    assert count_words([]) == 0


def test_a_row_is_spread_over_the_tokens_of_all_linked_words() -> None:
    src, tgt = ["▁a", "b", "▁c", "▁d"], ["▁x", "▁y", "z"]
    found = alignment_matrices([links((0, 1), (2, 1)), links()], [src, ["▁a"]], [tgt, ["▁x"]], (5, 6))
    third = 1 / 3
    row = [third, third, 0.0, third, 0.0, 0.0]
    none = [0.0] * 6
    assert np.allclose(found[0], [none, row, row, none, none])
    assert not found[1].any()
