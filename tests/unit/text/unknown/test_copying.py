"""Unknown pieces of a source have ids of their own, and come back as they were."""

import pytest

from qkv.text import BytePairConfig, CharacterConfig, SentencePieceConfig, Tokenizer, WhitespaceConfig
from qkv.text.unknown.copying import CopyingTokenizers, SourceTokenizer

TEXT = ["the cat sat on the mat and the dog ran", "a dog and a cat ran to the mat"]


def tokenizer_of(kind: str) -> Tokenizer:
    configs = {
        "whitespace": WhitespaceConfig(),
        "char": CharacterConfig(),
        "bpe": BytePairConfig(vocab_size=270),
        "sentencepiece": SentencePieceConfig(vocab_size=24, byte_fallback=False),
        "unigram": SentencePieceConfig(vocab_size=24, byte_fallback=False, model="unigram"),
    }
    return configs[kind].train(TEXT)


@pytest.mark.parametrize("kind", ["whitespace", "char", "bpe", "sentencepiece", "unigram"])
@pytest.mark.parametrize("src", ["the 日本 cat", "Žižek ran to Žižek", "the cat", "日", "日本 語日 日本"])
def test_a_source_comes_back_with_its_unknown_words(kind: str, src: str) -> None:
    tokenizer = tokenizer_of(kind)
    pair = CopyingTokenizers(tokenizer, tokenizer)
    encoded = tokenizer.encode(src)
    ids, same = pair.linked(src, src, encoded, encoded)
    own = pair.output_of(src, ids)
    assert tokenizer.special.unk not in ids
    assert ids == same == own.encode(src)
    assert all(i < len(tokenizer) + len(ids) for i in ids)
    assert own.decode(ids) == tokenizer.normalize(src)
    assert len(own.tokens(ids)) == len(ids)
    assert "<unk>" not in own.tokens(ids)
    unknown = [place for place, i in enumerate(encoded) if i == tokenizer.special.unk]
    assert len(tokenizer.unknowns(src)) == len(unknown)
    assert [place for place, i in enumerate(ids) if i >= len(tokenizer)] == unknown
    assert bool(unknown) == (kind != "bpe" and src != "the cat")


def test_ids_are_those_of_the_first_place_and_of_one_source() -> None:
    tokenizer = tokenizer_of("whitespace")
    size, cat, unk = len(tokenizer), tokenizer.encode("cat")[0], tokenizer.special.unk
    pair = CopyingTokenizers(tokenizer, tokenizer)
    texts = "cat Bo Al Bo", "Al cat Cy Bo"
    src, tgt = pair.linked(*texts, *(tokenizer.encode(text) for text in texts))
    assert src == [cat, size + 1, size + 2, size + 1]
    assert tgt == [size + 2, cat, unk, size + 1]
    own = pair.output_of(texts[0], src)
    assert own.decode([size + 2, unk, cat]) == "Al ⁇ cat"
    assert own.tokens([size + 2, unk]) == ["Al", "<unk>"]
    cut = SourceTokenizer(tokenizer, texts[0], [*src[:2], tokenizer.special.eos])
    assert cut.encode("Al Bo") == [unk, size + 1]
