"""A source that arrives piece by piece: the output is that of the whole, and is written before the end."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError, UsageError
from qkv.inference.streaming import StreamingInference
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.text import SPECIAL, CharacterConfig, TextConfig, WhitespaceConfig
from qkv.text.incremental import IncrementalEncoder
from qkv.translate.translator import Translator
from tests.support.parts import sources
from tests.support.small import small_config, small_model, stir

SURE = {"kind": "monotonic", "start_bias": 1.0}
"""Half of the stops are at the first key that is seen."""
KINDS: list[dict[str, Any]] = [
    {"encoder_attention": "causal", "cross_attention": SURE},
    {"encoder_attention": {"kind": "truncated", "left": 2, "right": 0}, "cross_attention": SURE},
    {"encoder_attention": "causal", "cross_attention": {**SURE, "kind": "mocha", "chunk": 2}, "positions": "rope"},
    {"encoder_attention": "causal", "cross_attention": {"kind": "wait_k", "k": 2}, "positions": "t5"},
    {"encoder_attention": "causal", "cross_attention": SURE, "wiring": "layerwise", "stack": "universal"},
]
AHEAD: list[dict[str, Any]] = [
    {"encoder_attention": {"kind": "truncated", "left": 2, "right": 1}, "cross_attention": SURE},
    {
        "encoder_attention": {"kind": "truncated", "left": 3, "right": 1, "dilation": 2},
        "cross_attention": {**SURE, "kind": "mocha", "chunk": 2},
        "positions": "rope",
    },
]
"""Encoders that look ahead by two and by four tokens, in two layers."""
LETTERS = "abcdef"


def saved_model(parts: dict[str, Any], seed: int = 0) -> SavedModel:
    """Letters to words; random weights, and stops that are neither rare nor certain."""
    text = TextConfig(src=CharacterConfig(), tgt=WhitespaceConfig())
    tokenizers = text.train(lambda: [LETTERS], lambda: [" ".join(f"W{letter}" for letter in LETTERS)])
    config = small_config(**parts)
    torch.manual_seed(seed)
    model = config.build(tokenizers)
    for _ in range(4):
        stir(model)
    return SavedModel(model.eval(), tokenizers, SavedConfig(model=config, text=text))


def cut(text: str, source: random.Random) -> Iterator[str]:
    while text:
        size = source.randint(1, 3)
        yield text[:size]
        text = text[size:]


@pytest.mark.parametrize("parts", KINDS, ids=str)
def test_the_encoder_reads_in_pieces_what_it_reads_at_once(parts: dict[str, Any]) -> None:
    model = small_model(**parts).eval()
    src, keep = sources([9])
    streaming = StreamingInference(model)
    with torch.inference_mode():
        state = streaming.start(src[:, :2], last=False)
        for begin, end in ((2, 3), (3, 7), (7, 10)):
            state = streaming.read(src[:, begin:end], state, last=end == 10)
        wanted = streaming.model.start(src, keep)
    torch.testing.assert_close(state.decoder.sources.key_value, wanted.sources.key_value, atol=1e-5, rtol=0)
    assert state.length == 10
    assert state.decoder.sources.complete


@pytest.mark.parametrize(("parts", "lookahead"), list(zip(AHEAD, [2, 4], strict=True)), ids=str)
def test_an_encoder_that_looks_ahead_gives_what_cannot_change(parts: dict[str, Any], lookahead: int) -> None:
    model = small_model(**parts).eval()
    src, keep = sources([9])
    streaming = StreamingInference(model, lookahead)
    with torch.inference_mode():
        wanted = streaming.model.start(src, keep).sources.key_value
        state = streaming.start(src[:, :5], last=False)
        for begin, end in ((5, 6), (6, 8), (8, 10)):
            known = state.decoder.sources.key_value
            assert known.shape[3] == begin - lookahead
            torch.testing.assert_close(known, wanted[:, :, :, : begin - lookahead], atol=1e-5, rtol=0)
            state = streaming.read(src[:, begin:end], state, last=end == 10)
    torch.testing.assert_close(state.decoder.sources.key_value, wanted, atol=1e-5, rtol=0)
    assert state.length == 10


@pytest.mark.parametrize("parts", [*KINDS, *AHEAD], ids=str)
def test_piece_by_piece_equals_the_whole(parts: dict[str, Any]) -> None:
    early = 0
    for seed in range(3):
        source = random.Random(seed)
        text = "".join(source.choice(LETTERS) for _ in range(12))
        translator = Translator(saved_model(parts, seed), engine="torch", search="greedy")
        *_, found = translator.simultaneous(cut(text, source))
        assert found.complete
        assert found.tokens == translator.translate(text).tokens
        assert len(found.delays) == len(found.tokens)
        assert found.delays == sorted(found.delays)
        early += sum(delay < 13 for delay in found.delays)
    assert early > 3


def test_what_was_written_stays_and_nothing_is_read_before_it_is_asked_for() -> None:
    """The pieces are given by a generator that notes when it is asked."""
    translator, asked = Translator(saved_model(KINDS[3]), engine="torch", search="greedy"), list[str]()

    def pieces() -> Iterator[str]:
        for letter in "abcdefabcdef":
            asked.append(letter)
            yield letter

    found = list(translator.simultaneous(pieces(), k=4))
    assert len(found) > 3
    for before, after in pairwise(found):
        assert after.tokens[: len(before.tokens)] == before.tokens
    assert found[0].delays[0] == 4
    stream = translator.simultaneous(pieces(), k=4)
    asked.clear()
    next(stream)
    assert len(asked) == 4


def test_wait_k_lags_by_k() -> None:
    translator = Translator(saved_model(KINDS[3]), engine="torch", search={"kind": "greedy", "min_length": 12})
    for k in (1, 3, 5):
        *_, found = translator.simultaneous(["abcdef", "fedcba"], k)
        assert found.delays[:8] == [min(k + t, 13) for t in range(8)][: len(found.delays)]


def test_a_source_shorter_than_the_encoder_looks_ahead_is_read_to_its_end() -> None:
    translator = Translator(saved_model(AHEAD[1]), engine="torch", search="greedy")
    for text in ("a", "abc"):
        *_, found = translator.simultaneous(text)
        assert found.tokens == translator.translate(text).tokens
        assert found.src_length == len(text) + 1
    *_, found = translator.simultaneous("abcdefabcdef")
    assert all(4 < delay <= 13 for delay in found.delays)


def test_an_empty_source_has_an_empty_translation() -> None:
    translator = Translator(saved_model(KINDS[0]), engine="torch", search="greedy")
    for pieces in ([], [""], [" ", " "]):
        (found,) = translator.simultaneous(pieces)
        assert (found.text, found.complete, found.src_length) == ("", True, 0)


def test_words_are_read_when_they_are_over() -> None:
    tokenizer = WhitespaceConfig().train(["ab cd ef"])
    encoder = IncrementalEncoder(tokenizer)
    known = {tokenizer.tokens([i])[0]: i for i in range(len(tokenizer))}
    assert [encoder.feed(piece) for piece in ("a", "b ", " c", "d\te")] == [[], [known["ab"]], [], [known["cd"]]]
    assert encoder.feed("") == []
    assert encoder.finish() == [SPECIAL.unk]
    letters = IncrementalEncoder(CharacterConfig().train(["eé"]))
    assert len(letters.feed("e")) == 1
    with pytest.raises(UsageError, match="cut it between words, or between characters"):
        letters.feed("\u0301")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "cross_attention full attends to the whole source; use monotonic, mocha or wait_k"),
        ({"cross_attention": "monotonic"}, "encoder_attention full looks ahead.* encoder_attention causal"),
        (
            {"cross_attention": "mocha", "encoder_attention": {"kind": "longformer", "window": 2}},
            "encoder_attention longformer looks ahead.* truncated with a small right",
        ),
    ],
)
def test_a_model_that_needs_the_whole_source_is_refused(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Translator(saved_model(parts)).simultaneous(["abc"])
    with pytest.raises(ConfigError, match="streaming: " + words):
        small_config(**parts, streaming=True)


@pytest.mark.parametrize("parts", [*KINDS, *AHEAD], ids=str)
def test_a_recipe_can_ask_for_a_model_that_streams(parts: dict[str, Any]) -> None:
    assert small_config(**parts, streaming=True).needs_whole_source is None
    with pytest.raises(ConfigError, match="streaming: head copynet reads the whole source; use head linear"):
        small_config(**parts | {"wiring": "last"}, streaming=True, head="copynet")


def test_another_k_is_for_wait_k_alone() -> None:
    with pytest.raises(UsageError, match="no attention of the kind wait_k"):
        Translator(saved_model(KINDS[0])).simultaneous(["abc"], k=3)
