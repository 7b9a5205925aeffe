"""The subword kinds: our sampling against the libraries' own encoding, and what they refuse."""

import json
import re
from pathlib import Path
from random import Random

import pytest

from qkv.core.errors import ConfigError, CorruptFolder, DataError, UsageError
from qkv.text import BytePairConfig, NormalizeConfig, SentencePieceConfig, Tokenizer, TokenizerConfig
from qkv.text.special import NAMES, SPECIAL

STEMS = [
    "Hund",
    "wald",
    "katze",
    "Ofen",
    "läuft",
    "schlaf",
    "durch",
    "neben",
    "warm",
    "regen",
    "außen",
    "er",
    "en",
    "s",
]


def corpus(count: int, seed: int = 0) -> list[str]:
    """Sentences of compound words, so that there are pieces inside words to be found."""
    random = Random(seed)

    def word() -> str:
        return "".join(random.choices(STEMS, k=random.randint(1, 3)))

    return [" ".join(word() for _ in range(random.randint(1, 9))) + random.choice(".!?,") for _ in range(count)]


TEXTS = corpus(300)
OTHERS = [
    *corpus(100, seed=1),
    "Hundewald Waldkatze",
    "ein völlig neues Wort: Xylophon",
    "  weit   weg ",
    "雪 ☃☃!",
    "",
    "</s>",
]
KEEP = NormalizeConfig(unicode="none", whitespace="keep")


def barely(config: TokenizerConfig, rate: float) -> Tokenizer:
    return config.model_copy(update={"dropout" if isinstance(config, BytePairConfig) else "sampling": rate}).train(
        TEXTS
    )


@pytest.mark.parametrize("normalization", [NormalizeConfig(), KEEP])
@pytest.mark.parametrize(
    ("config", "rate"),
    [
        (BytePairConfig(vocab_size=400), 1e-12),
        (SentencePieceConfig(vocab_size=350), 1e-12),
        (SentencePieceConfig(vocab_size=90, byte_fallback=False), 1e-12),
        (SentencePieceConfig(vocab_size=340, model="unigram"), 1e6),
        (SentencePieceConfig(vocab_size=90, model="unigram", byte_fallback=False), 1e6),
    ],
)
def test_sampling_without_chance_is_the_library_encoding(
    config: TokenizerConfig, rate: float, normalization: NormalizeConfig
) -> None:
    """At a dropout near 0, or a huge exponent, our own cutting must do what the library does."""
    tokenizer = barely(config.model_copy(update={"normalize": normalization}), rate)
    for text in TEXTS + OTHERS:
        assert tokenizer.sample(text, Random(0)) == tokenizer.encode(text), text


@pytest.mark.parametrize("config", [BytePairConfig(vocab_size=400), SentencePieceConfig(vocab_size=350)])
def test_full_dropout_gives_characters(config: TokenizerConfig) -> None:
    tokenizer = barely(config, 1.0)
    assert tokenizer.tokens(tokenizer.sample("der Hund", Random(0))) == list("▁der▁Hund")


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_sentencepiece_names_the_vocab_size_that_works(model: str) -> None:
    def config(size: int) -> SentencePieceConfig:
        return SentencePieceConfig.model_validate({"model": model, "vocab_size": size})

    for wrong, hint in [(50_000, r"set it to (\d+) or less"), (100, r"set it to (\d+) or more")]:
        with pytest.raises(UsageError, match=hint) as caught:
            config(wrong).train(TEXTS)
        found = re.search(hint, str(caught.value))
        assert found
        assert len(config(int(found[1])).train(TEXTS)) == int(found[1])


def test_text_that_sentencepiece_skips_is_a_data_error() -> None:
    config = SentencePieceConfig(vocab_size=300, normalize=KEEP)
    with pytest.raises(DataError, match="cannot learn from this text"):
        config.train(["\t"] * 5)


def test_sentencepiece_dropout_is_a_probability() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        SentencePieceConfig(sampling=1.5)
    assert SentencePieceConfig(model="unigram", sampling=1.5).sampling == 1.5


def test_without_byte_fallback_a_run_of_unknown_characters_is_one_mark() -> None:
    tokenizer = SentencePieceConfig(vocab_size=90, byte_fallback=False, sampling=0.5).train(TEXTS)
    assert tokenizer.decode(tokenizer.encode("der ☃雪 Hund")) == "der ⁇ Hund"
    assert tokenizer.decode(tokenizer.sample("der ☃雪 Hund", Random(1))) == "der ⁇ Hund"


def test_special_names_in_the_training_text_stay_text() -> None:
    texts = [f"{name} x{name}y{name}" for name in NAMES] * 50 + TEXTS
    for config in (
        BytePairConfig(vocab_size=400),
        SentencePieceConfig(vocab_size=350),
        SentencePieceConfig(vocab_size=340, model="unigram"),
    ):
        tokenizer = config.train(texts)
        for name in NAMES:
            assert min(tokenizer.encode(f"x{name}y {name}")) >= len(NAMES)


def test_bytes_that_are_no_text_decode_to_the_replacement_character() -> None:
    for config in (BytePairConfig(vocab_size=400), SentencePieceConfig(vocab_size=350)):
        tokenizer = config.train(TEXTS)
        snow = tokenizer.encode("雪")
        assert "\ufffd" in tokenizer.decode(snow[:-1])
        assert tokenizer.tokens(snow)[-1] == "<0xAA>"


def test_the_first_word_is_the_piece_that_it_is_elsewhere() -> None:
    tokenizer = BytePairConfig(vocab_size=500).train(TEXTS)
    first, second = tokenizer.encode("Hund Hund")
    assert first == second
    assert tokenizer.decode([SPECIAL.bos, first, SPECIAL.unk, SPECIAL.eos]) == "Hund⁇"


def test_subwords_learn_from_a_sample_of_a_long_stream() -> None:
    few = BytePairConfig(vocab_size=400, max_texts=50).train(iter(TEXTS))
    all_of_them = BytePairConfig(vocab_size=400).train(iter(TEXTS))
    assert few.definition()["merges"] != all_of_them.definition()["merges"]


def test_a_file_whose_merges_make_a_control_id_is_refused(tmp_path: Path) -> None:
    config = BytePairConfig(vocab_size=400)
    config.train(TEXTS).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    size = len(content["model"]["vocab"])
    content["model"]["vocab"] |= {"<p": size, "ad>": size + 1}
    content["model"]["merges"].append(["<p", "ad>"])
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CorruptFolder, match="special token out of text"):
        config.load(tmp_path)


def test_an_id_beyond_the_vocabulary_is_refused_before_the_library_counts_up_to_it(tmp_path: Path) -> None:
    config = BytePairConfig(vocab_size=400)
    config.train(TEXTS).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    saved["model"]["vocab"][sorted(saved["model"]["vocab"])[-1]] = 2**31
    path.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(CorruptFolder, match="an id is missing"):
        config.load(tmp_path)
