"""Prefixes, forbidden and required words: they hold, and what cannot hold is told in words."""

from typing import Any

import pytest

from qkv.core.errors import UsageError
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from tests.support.speaker import SHORT, sentences, speaker, torch_translator


def test_prefixes_forbidden_and_required_words() -> None:
    given = sentences(6)
    search = BeamConfig(size=4)
    prefixes = ["", "cc", "cc ba", "", "aa", ""]
    found = torch_translator(search=search).translate(given, prefixes=prefixes)
    assert all(one.text.startswith(prefix) for one, prefix in zip(found, prefixes, strict=True))
    usual = torch_translator(search=search).translate(given)
    assert found[0].text == usual[0].text
    word = next(one.tokens[0] for one in usual if one.tokens)
    assert all(word not in one.tokens for one in torch_translator(search=search).translate(given, forbidden=[word]))
    required = [[], ["cb ca"], ["aa"], [], [], []]
    found = torch_translator(search=search).translate(given, required=required)
    assert "cb ca" in found[1].text
    assert "aa" in found[2].tokens


def test_one_rule_for_each_text() -> None:
    judge, given = torch_translator(search=BeamConfig(**SHORT)), ["aa", "ab"]
    with pytest.raises(UsageError, match=r"^text 2 has no prefix; give one entry for each text"):
        judge.translate(given, prefixes=["aa"])
    with pytest.raises(UsageError, match=r"^text 1 has no required words"):
        list(judge.stream(given, prefixes=["", ""], required=[]))
    with pytest.raises(UsageError, match=r"^there are 2 texts but more prefixes"):
        judge.translate(given, prefixes=["", "", ""], required=[[], []])
    with pytest.raises(UsageError, match=r"^there are 2 texts but more required words"):
        list(judge.stream(given, required=[[], [], []]))
    for nbest in (0, -1):
        with pytest.raises(UsageError, match=f"nbest is {nbest}"):
            judge.translate(given, nbest=nbest)
        with pytest.raises(UsageError, match=f"nbest is {nbest}"):
            judge.stream(given, nbest=nbest)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"prefixes": ["", "aa zz"]}, 'prefix "aa zz", for the text "ab": the model does not know "zz"; change it'),
        ({"required": [["bb"], ["zz"]]}, 'required "zz", for the text "ab": the model does not know "zz"; change it'),
        ({"forbidden": ["aa", "bb zz"]}, 'forbidden "bb zz": the model does not know "zz"; change it'),
        ({"forbidden": [" "]}, 'forbidden " ": has no tokens; leave it out'),
        ({"required": [[], [""]]}, 'required "", for the text "ab": has no tokens; leave it out'),
        (
            {"required": [[], ["aa bb"]], "forbidden": ["bb"]},
            'required "aa bb", for the text "ab": holds the forbidden "bb"; drop one',
        ),
    ],
)
def test_words_that_cannot_be_a_rule_are_named(rules: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as told:
        torch_translator(search=BeamConfig(**SHORT)).translate(["aa", "ab"], **rules)
    assert str(told.value) == sentence


def test_a_blank_prefix_is_none() -> None:
    given = sentences(3)
    assert torch_translator().translate(given, prefixes=["", " ", "\t"]) == torch_translator().translate(given)


def test_no_line_stops_the_others_by_its_length() -> None:
    """Limits that exclude each other, and prefixes and required words that need more room than there is."""
    given, long = ["aa", "ab ac"], "aa ab ac ba bb bc"
    for search in (GreedyConfig(max_length=2), BeamConfig(max_length=2, min_factor=9.0)):
        found = torch_translator(search=search).translate(given, prefixes=[long, ""])
        assert found[0].text.startswith(long)
        assert len(found[0].tokens) <= 7
        assert len(found[1].tokens) <= 2
    wanted = torch_translator(search=BeamConfig(max_length=2)).translate(given, required=[[long], []])
    assert long in wanted[0].text
    small = speaker(positions={"kind": "learned", "max_length": 4})
    cut = torch_translator(small, search=BeamConfig()).translate(["aa", "ab"], required=[[long], []])
    assert cut[0].truncated
