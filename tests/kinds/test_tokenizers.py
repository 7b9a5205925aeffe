"""What must hold for every registered kind of tokenizer."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

import qkv.text
from qkv.core.errors import CorruptFolder, DataError, UsageError
from qkv.text import NormalizeConfig, Tokenizer, TokenizerConfig, fingerprint
from qkv.text.special import NAMES, SPECIAL

TEXTS = [
    "A little girl climbs into a wooden playhouse.",
    "Two young men are outside near many bushes, é, ß.",
    "Several men in hard hats operate a giant pulley system.",
    "A man in a blue shirt stands on a ladder cleaning a window.",
] * 3

# Settings that a kind needs to learn from so little text, and other ways to set it up.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "bpe": [{"vocab_size": 300}, {"vocab_size": 300, "dropout": 0.3}],
    "sentencepiece": [
        {"vocab_size": 310},
        {"vocab_size": 310, "sampling": 0.3},
        {"vocab_size": 310, "model": "unigram", "sampling": 0.3},
        {"vocab_size": 60, "byte_fallback": False},
    ],
}
CONFIGS = [
    qkv.text.tokenizers[kind].model_validate(variant)
    for kind in qkv.text.tokenizers.names()
    if qkv.text.tokenizers[kind].trainable
    for variant in VARIANTS.get(kind, [{}])
]


def label(config: TokenizerConfig) -> str:
    return "-".join(str(value) for value in config.model_dump(exclude_defaults=True).values()) or type(config).__name__


@pytest.fixture(params=CONFIGS, ids=label, scope="module")
def config(request: pytest.FixtureRequest) -> TokenizerConfig:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(config: TokenizerConfig) -> Tokenizer:
    return config.train(iter(TEXTS))


def test_training_twice_gives_the_same_pieces(config: TokenizerConfig, tokenizer: Tokenizer) -> None:
    again = config.train(iter(TEXTS))
    assert again.tokens(range(len(again))) == tokenizer.tokens(range(len(tokenizer)))
    assert fingerprint(again) == fingerprint(tokenizer)


def test_other_texts_or_normal_forms_have_another_fingerprint(config: TokenizerConfig, tokenizer: Tokenizer) -> None:
    other_texts = config.train([*TEXTS, "zzzz zzzz zz zzzz"])
    upper = config.model_copy(update={"normalize": NormalizeConfig(unicode="none")}).train(TEXTS)
    assert len({fingerprint(t) for t in (tokenizer, other_texts, upper)}) == 3


def test_special_ids_come_first(tokenizer: Tokenizer) -> None:
    assert tokenizer.special == SPECIAL
    assert tokenizer.tokens(range(len(NAMES))) == list(NAMES)


def test_training_text_comes_back(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text) == text


def test_ids_are_in_the_vocabulary_and_known(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        assert all(len(NAMES) <= i < len(tokenizer) for i in tokenizer.encode(text))


def test_a_batch_is_its_texts(tokenizer: Tokenizer) -> None:
    texts = [*TEXTS, "", "ꙮ", "  two   spaces "]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_no_text_gives_a_control_id(tokenizer: Tokenizer) -> None:
    for text in [*NAMES, "".join(NAMES), " ".join(NAMES), "a</s>b <s> <mask>.", "▁</s>", "<0x02>", "ꙮ"]:
        for ids in (tokenizer.encode(text), tokenizer.encode_batch([text])[0], tokenizer.sample(text, Random(0))):
            assert not SPECIAL.control & set(ids), text


def test_decoding_skips_control_ids_and_marks_the_unknown(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.decode([SPECIAL.bos, *ids, SPECIAL.eos, SPECIAL.mask, SPECIAL.pad]) == TEXTS[0]
    assert tokenizer.decode([SPECIAL.unk]) == "⁇"
    assert tokenizer.decode([]) == ""


def test_the_empty_text_has_no_ids(tokenizer: Tokenizer) -> None:
    for text in ("", "   "):
        assert tokenizer.encode(text) == tokenizer.sample(text, Random(0)) == []


def test_a_sample_is_a_function_of_the_generator_and_spells_the_text(tokenizer: Tokenizer) -> None:
    for seed, text in enumerate(TEXTS):
        ids = tokenizer.sample(text, Random(seed))
        assert ids == tokenizer.sample(text, Random(seed))
        assert tokenizer.decode(ids) == text


def test_sampling_varies_only_where_it_is_configured(config: TokenizerConfig, tokenizer: Tokenizer) -> None:
    samples = {tuple(tokenizer.sample(TEXTS[0], Random(seed))) for seed in range(20)}
    assert len(samples) > 5 if config.samples else samples == {tuple(tokenizer.encode(TEXTS[0]))}


def test_saved_and_loaded_it_is_the_same(config: TokenizerConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = config.load(tmp_path)
    assert len(loaded) == len(tokenizer)
    assert fingerprint(loaded) == fingerprint(tokenizer)
    for text in [*TEXTS, "</s> ꙮ"]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.sample(text, Random(1)) == tokenizer.sample(text, Random(1))
        assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))


def test_each_missing_or_damaged_file_is_named(config: TokenizerConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for damage in (b"", content[: len(content) // 2], b"\xff\x00junk"):
            path.write_bytes(damage)
            with pytest.raises(CorruptFolder, match=path.name):
                config.load(tmp_path)
        path.unlink()
        with pytest.raises(CorruptFolder, match=path.name):
            config.load(tmp_path)
        path.write_bytes(content)


def test_another_normal_form_is_refused(config: TokenizerConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    other = config.model_copy(update={"normalize": NormalizeConfig(lowercase=True)})
    with pytest.raises(UsageError, match="lowercase"):
        other.load(tmp_path)


@pytest.mark.parametrize("texts", [[], ["", "  \n"]])
def test_nothing_cannot_be_learned_from(config: TokenizerConfig, texts: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn"):
        config.train(texts)


def test_half_a_character_is_a_data_error(config: TokenizerConfig, tokenizer: Tokenizer) -> None:
    for act in (tokenizer.encode, lambda text: tokenizer.encode_batch([text]), lambda text: config.train([text])):
        with pytest.raises(DataError, match="lone surrogate"):
            act("a\ud800")


def test_every_setting_is_documented(config: TokenizerConfig) -> None:
    assert type(config).__doc__
    assert all(field.description for name, field in type(config).model_fields.items() if name != "kind")
