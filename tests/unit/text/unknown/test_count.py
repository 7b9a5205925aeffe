"""What a tokenizer does not know, and the sentence that says so."""

import pytest

from qkv.text import CharacterConfig, SentencePieceConfig, Tokenizer, WhitespaceConfig
from qkv.text.unknown.count import UnknownCount, unknown_pieces

TEXTS = ["the cat sat on the mat", "a dog ran to the cat"] * 10
WORDS = WhitespaceConfig().train(TEXTS)
LETTERS = CharacterConfig().train(TEXTS)
PIECES = SentencePieceConfig(vocab_size=30, byte_fallback=False).train(TEXTS)
CLOSED = CharacterConfig().train(["ab"])
CLOSED_KEEPING = CharacterConfig(normalize={"whitespace": "keep"}).train(["ab"])
BYTES = SentencePieceConfig(vocab_size=300).train(TEXTS)


@pytest.mark.parametrize(
    ("tokenizer", "text", "unknown"),
    [
        (WORDS, "the cat ran", []),
        (WORDS, "the zebra  sat, the zebra", ["zebra", "sat,", "zebra"]),
        (WORDS, "", []),
        (LETTERS, "the cat", []),
        (LETTERS, "die Katze ß", ["i", "K", "z", "ß"]),
        (PIECES, "the cat ß Kß", ["ß", "K", "ß"]),
        (CLOSED, "a b", [" "]),
        (CLOSED, " a\tb ", [" "]),
        (CLOSED, "a c  b", [" ", "c", " "]),
        (CLOSED_KEEPING, "a\t b ", ["\t", " ", " "]),
        (CLOSED_KEEPING, " ", [" "]),
        (BYTES, "die Katze ß", []),
    ],
)
def test_words_or_else_their_letters(tokenizer: Tokenizer, text: str, unknown: list[str]) -> None:
    assert unknown_pieces(tokenizer, text) == unknown
    assert bool(unknown) == (tokenizer.special.unk in tokenizer.encode(text))


def test_the_remark() -> None:
    count = UnknownCount().add([["zebra", "sat,"], [], ["zebra"]])
    assert count.texts == 2
    assert count.remark == (
        'have words or characters that the model does not know and reads as <unk>, 3 in all: "zebra" (2 times), "sat,"'
    )
    many = UnknownCount().add([[str(number) for number in range(1000)]])
    assert many.remark.endswith('1,000 in all: "0", "1", "2", "3", "4", ...')
    assert UnknownCount().add([["a\x1b[31m\n" * 100]]).examples.isprintable()
