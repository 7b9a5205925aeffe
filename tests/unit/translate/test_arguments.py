"""What a program may give to a Translator, and the one sentence for what it may not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import ArgumentError, ConfigError, UsageError
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.scoring import PairScore
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from tests.support.speaker import SHORT, save_speaker, speaker, torch_translator

TEXT = "aa ab"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return torch_translator()


def test_one_text_has_one_translation(translator: Translator) -> None:
    found = translator.translate(TEXT)
    assert isinstance(found, Translation)
    assert found == translator.translate([TEXT])[0]
    assert found.src_tokens == ["aa", "ab", "</s>"]


def test_what_belongs_to_one_text_is_given_as_it_is() -> None:
    translator = torch_translator(search=BeamConfig(**SHORT))
    one = translator.translate(TEXT, prefixes="bb", required=["ca"], forbidden=["cc"], alignment=True)
    assert one.tokens[0] == "bb"
    assert "ca" in one.tokens
    (of_list,) = translator.translate([TEXT], prefixes=["bb"], required=[["ca"]], forbidden=["cc"], alignment=True)
    assert one.text == of_list.text


@pytest.mark.parametrize("make", [list, tuple, iter], ids=lambda make: make.__name__)
def test_any_iterable_is_a_list(translator: Translator, make: Callable[[Any], Any]) -> None:
    assert translator.translate(make([TEXT, "ba"])) == translator.translate([TEXT, "ba"])
    assert list(translator.stream(make([TEXT]))) == translator.translate([TEXT])
    assert translator.score(make([(TEXT, "ba")])) == translator.score(make([[TEXT, "ba"]]))


def test_one_pair_has_one_score(translator: Translator) -> None:
    found = translator.score((TEXT, "ba"))
    assert isinstance(found, PairScore)
    assert [found] == translator.score([(TEXT, "ba")])


def test_the_engines_get_what_was_checked() -> None:
    """A whole number that comes as 64.0, from JSON say, is the number 64 everywhere."""
    from_json: Any = 64.0
    engines = Translator(speaker(), max_src_tokens=from_json).engines
    assert (engines.max_src_tokens, type(engines.max_src_tokens)) == (64, int)


LISTS = "must be a list of texts, not"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda t: t.translate(None), f"texts: {LISTS} None"),
        (lambda t: t.translate(3), f"texts: {LISTS} int"),
        (lambda t: t.translate(b"aa"), f"texts: {LISTS} bytes"),
        (lambda t: t.translate({"aa": "ab"}), f"texts: {LISTS} dict"),
        (lambda t: t.translate(["aa", None]), "texts[1]: must be text (str), not None"),
        (lambda t: t.translate([float("nan")]), "texts[0]: must be text (str), not float"),
        (lambda t: t.translate([b"aa"]), 'texts[0]: must be text (str), not bytes; decode it first: .decode("utf-8")'),
        (lambda t: t.translate([["aa"]]), "texts[0]: must be text (str), not list"),
        (lambda t: t.translate(["aa"], prefixes="ab"), f"prefixes: {LISTS} one text; put it in a list: [...]"),
        (lambda t: t.translate("aa", prefixes=["ab"]), "prefixes[0]: must be text (str), not list"),
        (lambda t: t.translate(["aa"], prefixes=[None]), "prefixes[0]: must be text (str), not None"),
        (lambda t: t.translate(["aa"], required=["ab"]), f"required[0]: {LISTS} one text; put it in a list: [...]"),
        (lambda t: t.translate("aa", required="ab"), f"required[0]: {LISTS} one text; put it in a list: [...]"),
        (lambda t: t.translate(["aa"], required=[[3]]), "required[0][0]: must be text (str), not int"),
        (lambda t: t.translate("aa", forbidden="ab"), f"forbidden: {LISTS} one text; put it in a list: [...]"),
        (lambda t: t.translate("aa", forbidden=[1]), "forbidden[0]: must be text (str), not int"),
        (lambda t: t.translate("aa", nbest="2"), "nbest: must be a whole number, not str"),
        (lambda t: t.translate("aa", nbest=2.0), "nbest: must be a whole number, not float"),
        (lambda t: t.translate("aa", nbest=True), "nbest: must be a whole number, not bool"),
        (lambda t: t.stream("aa"), f"texts: {LISTS} one text; put it in a list: [...]"),
        (lambda t: t.stream(None), f"texts: {LISTS} None"),
        (lambda t: list(t.stream([1])), "texts[0]: must be text (str), not int"),
        (lambda t: t.score(None), "pairs: must be a list of pairs (source, target), not None"),
        (lambda t: t.score("aa"), "pairs: must be a list of pairs (source, target), not one text; put it in a list"),
        (lambda t: t.score(["aa", "ab"]), "pairs[0]: must be a pair (source, target), not str"),
        (lambda t: t.score([("aa",)]), "pairs[0]: must be a pair (source, target), but has 1 items"),
        (lambda t: t.score([("aa", None)]), "pairs[0][1]: must be text (str), not None"),
        (lambda t: t.score([("aa", ["ab"])]), "pairs[0][1]: must be text (str), not list"),
    ],
)
def test_a_wrong_type_is_one_sentence(translator: Translator, call: Callable[[Any], object], sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(translator)
    assert str(caught.value).startswith(sentence)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"search": "greddy"}, 'Translator: search: unknown kind "greddy"; did you mean "greedy"?'),
        ({"search": {"kind": "beam", "size": 0}}, "Translator: search.size: must be at least 1, not 0"),
        ({"search": 5}, "Translator: search: must be one of the kinds of search"),
        ({"engine": "tensorflow"}, 'Translator: engine: must be "auto", "torch", "ctranslate2" or "onnxruntime"'),
        ({"workers": 0}, "Translator: workers: must be at least 1, not 0"),
        ({"workers": "many"}, 'Translator: workers: must be a whole number or "auto", not the text "many"'),
        ({"batch_tokens": "x"}, 'Translator: batch_tokens: must be a whole number or null, not the text "x"'),
        ({"batch_tokens": 0}, "Translator: batch_tokens: must be at least 1, not 0"),
        ({"max_src_tokens": 1}, "Translator: max_src_tokens: must be at least 2, not 1"),
        ({"split_long": "no"}, 'Translator: split_long: must be true or false, not the text "no"; write false'),
    ],
)
def test_a_wrong_setting_names_its_key(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Translator(speaker(), **keys)
    assert str(caught.value).startswith(sentence)


def test_a_search_is_a_config_a_word_or_a_dict() -> None:
    for given, meant in (
        ("greedy", GreedyConfig()),
        ({"kind": "beam", "size": 3}, BeamConfig(size=3)),
        (BeamConfig(size=3, **SHORT), BeamConfig(size=3, **SHORT)),
    ):
        assert Translator(speaker(), search=given).search == Translator(speaker(), search=meant).search


@pytest.mark.parametrize("model", [None, 3, b"runs/x", [None], [3]], ids=str)
def test_a_model_is_a_folder_or_in_memory(model: Any) -> None:
    with pytest.raises(ArgumentError, match=r"model.*: must be a folder \(str or Path\) or a SavedModel, not"):
        Translator(model)


def test_no_model_at_all() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Translator([])


@pytest.mark.parametrize("draft", [3, b"x", ["jacobi"]], ids=str)
def test_a_draft_is_a_word_a_folder_or_a_config(draft: Any) -> None:
    with pytest.raises(ArgumentError, match="draft: must be a drafter, a word or a folder, not"):
        Translator(speaker(), draft=draft)


def test_a_folder_is_text_or_a_path(tmp_path: Path) -> None:
    folder = save_speaker(tmp_path / "model")
    assert Translator(str(folder), "torch").translate(TEXT) == Translator(folder, "torch").translate(TEXT)
