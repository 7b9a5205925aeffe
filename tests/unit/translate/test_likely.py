"""Tokens that are likely at each place, outputs that begin with given tokens, and outputs while they are written."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import Translator
from qkv.core.errors import UsageError
from qkv.data.batch import collate
from qkv.engines import likely as likely_module
from qkv.text.special import NEVER_OUTPUT, SPECIAL
from qkv.translate.output import TokenChoice
from qkv.translate.texts import DecodeOptions, SourceText, Unfinished
from qkv.translate.translator import MOST_DECODERS
from tests.support.exported import decided_model

MODEL = Path(__file__).parents[2] / "fixtures" / "autoregressive" / "model"
TEXTS = ["kalo minesu ta", "su", "", "lota tasumi ne"]


@pytest.mark.parametrize("search", ["greedy", {"kind": "beam", "size": 3}])
def test_likely_tokens_are_the_best_of_the_model_after_what_stands_before(search: str | dict[str, Any]) -> None:
    translator = Translator(MODEL, engine="torch", search=search)
    saved = translator.models.loaded[0]
    for text, found in zip(TEXTS, translator.translate(TEXTS, likely=4), strict=True):
        if not text:
            assert found.likely is None
            continue
        assert found.likely is not None
        assert [len(place) for place in found.likely] == [4] * (len(found.tokens) + 1)
        src, tgt = saved.tokenizers.src.encode(text), saved.tokenizers.tgt.encode(found.text)
        batch = collate([src], [tgt], SPECIAL, SPECIAL, [0])
        with torch.no_grad():
            log_probs = saved.model.head.log_probs(*saved.model(batch), never=NEVER_OUTPUT)[0]
        for place, row in zip(found.likely, log_probs.double().exp(), strict=True):
            order = sorted(range(len(row)), key=lambda i: -float(row[i]))[:4]
            assert [each.token for each in place] == saved.tokenizers.tgt.tokens(order)
            assert [each.probability for each in place] == pytest.approx([float(row[i]) for i in order], rel=1e-4)


def test_rows_that_do_not_fit_together_have_the_same_likely_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def likely() -> list[TokenChoice]:
        found = Translator(MODEL, engine="torch").translate(TEXTS, nbest=3, likely=2)
        return [each for one in found for place in one.likely or [] for each in place]

    together = likely()
    monkeypatch.setattr(likely_module, "PLACES", 1)
    alone = likely()
    assert [each.token for each in alone] == [each.token for each in together]
    assert [each.probability for each in alone] == pytest.approx([each.probability for each in together], rel=1e-4)


def test_a_long_text_has_the_likely_tokens_of_all_its_parts() -> None:
    translator = Translator(MODEL, engine="torch", search="greedy", max_src_tokens=8)
    found = translator.translate("kalo minesu. lota tasumi. su kalo.", likely=2)
    assert found.parts > 1
    assert found.likely is not None
    assert len(found.likely) == len(found.token_scores)


def test_given_tokens_begin_an_output_and_end_ends_it() -> None:
    translator = Translator(MODEL, engine="torch")
    decoder = translator.decoder(DecodeOptions(prefixes=True))
    whole = translator.translate("kalo minesu ta")
    (same,) = decoder([SourceText("kalo minesu ta", prefix_tokens=tuple(whole.tokens[:3]))])
    assert same.tokens == whole.tokens
    (other,) = decoder([SourceText("kalo minesu ta", prefix_tokens=("▁MI", "NE"))])
    assert other.tokens[:2] == ["▁MI", "NE"]
    assert other.tokens != whole.tokens
    (ended,) = decoder([SourceText("kalo minesu ta", prefix_tokens=("▁MI", "NE", "</s>"))])
    assert (ended.tokens, ended.truncated) == (["▁MI", "NE"], False)


@pytest.mark.parametrize("tokens", [("no such token",), ("</s>", "NE"), ("<pad>",), ("<s>",)])
def test_tokens_that_no_output_can_have_are_refused(tokens: tuple[str, ...]) -> None:
    decoder = Translator(MODEL, engine="torch").decoder(DecodeOptions(prefixes=True))
    with pytest.raises(UsageError, match=r"^prefix_tokens, for the text \"su\": an output cannot have"):
        decoder([SourceText("su", prefix_tokens=tokens)])


@pytest.mark.parametrize("search", ["greedy", {"kind": "beam", "size": 3}, {"kind": "beam", "length_factor": 1.5}])
def test_outputs_are_watched_while_they_are_written(search: str | dict[str, Any]) -> None:
    translator = Translator(MODEL, engine="torch", search=search)
    decoder, seen = translator.decoder(DecodeOptions()), list[Unfinished]()
    found = decoder([SourceText(text) for text in TEXTS], watch=seen.append)
    assert found == decoder([SourceText(text) for text in TEXTS])
    for number, one in enumerate(found):
        own = [each for each in seen if each.source == number]
        if not TEXTS[number]:
            assert own == []
            continue
        lengths = [len(each.tokens) for each in own]
        assert lengths[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(lengths))
        assert (own[-1].text, own[-1].tokens, own[-1].part) == (one.text, one.tokens, 0)


def test_fast_engines_leave_both_to_torch() -> None:
    pytest.importorskip("ctranslate2", reason="it is the extra fast")
    fast = Translator(decided_model(positions="sinusoidal"), search="greedy")
    assert fast.decoder(DecodeOptions()).engine.name == "ctranslate2"
    told: list[Unfinished] = []
    source = [SourceText("w001 w002")]
    fast.compared(DecodeOptions(watched=True), source)(source, watch=told.append)
    assert told
    translator = Translator(MODEL)
    assert translator.translate("su", likely=2).likely is not None
    with pytest.raises(UsageError, match="it gives no likely tokens for each position"):
        Translator(MODEL, engine="ctranslate2").translate("su", likely=2)
    with pytest.raises(UsageError, match="likely is -1"):
        translator.translate("su", likely=-1)


def test_a_translator_keeps_few_decoders_however_many_words_are_forbidden() -> None:
    translator = Translator(MODEL, engine="torch", search="greedy")
    expected = translator.translate("su").text
    for number in range(MOST_DECODERS + 8):
        options = DecodeOptions(forbidden=("KA", *["LO"] * number))
        assert translator.decoder(options) is translator.decoder(options)
    kept = [translator.decoder(DecodeOptions(forbidden=("KA", *["LO"] * number))) for number in (0, MOST_DECODERS + 7)]
    assert kept[1] is not kept[0]
    assert len(translator.__dict__["_decoders"]) == MOST_DECODERS
    assert translator.translate("su").text == expected
