"""Whatever a person types is answered."""

import math

import pytest

from qkv.demo.desk import Desk, Screen, guesses
from qkv.demo.folder import DemoFolder
from qkv.translate.output import Translation
from qkv.visual.alignment.text import ASCII


@pytest.fixture
def desk(place: DemoFolder) -> Desk:
    return Desk(place, Screen(ASCII, 60))


def translation(text: str, probability: float, *alternatives: Translation) -> Translation:
    scores = [math.log(probability) / 2] * 2
    return Translation(text, sum(scores), text.split(), scores, ["a", "</s>"], alternatives=list(alternatives))


def test_guesses_have_probabilities_and_the_dictionary_beside_them() -> None:
    found = translation("R EH D", 0.625, translation("R IY D", 0.25), translation("", 0.0004))
    assert guesses(found, ["R IY D", "R AY D D"]) == [
        "   62.5 %  R EH D",
        "   25.0 %  R IY D     = dictionary",
        "    0.0 %  (nothing)",
        "           R AY D D     dictionary",
    ]


def test_an_answer_has_status_guesses_and_picture(desk: Desk) -> None:
    title, *lines = desk.answer("cab")
    assert title == "cab: in the dictionary, but new to the model"
    found = desk.pronounce(["cab"])[0]
    shown = guesses(found, ["K AE B", "S IY AE B"])
    assert lines == [*shown, *desk.picture(found), ""]
    assert len(found.alternatives) == 2
    picture = desk.picture(found)
    assert picture[0].split() == ["c", "a", "b"]
    assert [line.split()[0] for line in picture[1:]] == found.tokens


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("bead", "bead: the model learned from this word"),
        ("BEAD", "bead: the model learned from this word"),
        ("bade", "bade: not in the dictionary, new to the model"),
        ("Bead, ", "bead: the model learned from this word"),
        ("“bead”.", "bead: the model learned from this word"),
        ("D.", "d.: the model learned from this word"),
        ("i’d", "i'd: the model learned from this word"),
        ("bé2ad日", "bead, without '2' '日': the model learned from this word"),
        ("ＢＥＡＤ", "bead: the model learned from this word"),
    ],
)
def test_what_is_typed_is_read_kindly(desk: Desk, line: str, title: str) -> None:
    assert desk.answer(line)[0] == title


@pytest.mark.parametrize("line", ["日本", "42", "...", "\ufffd", "\x1b[5~", "z" * 5000])
def test_what_has_no_letters_is_said_in_one_line(desk: Desk, line: str) -> None:
    (answer,) = desk.answer(line)
    assert "type an English word" in answer
    assert "\x1b" not in answer
    assert len(answer) < 120


def test_words_that_are_too_long_are_not_tried(desk: Desk) -> None:
    assert desk.answer("ab" * 21) == [f"{'ab' * 20}...: has 42 letters; type words of up to 40"]
    assert len(desk.answer("ab" * 20)) > 3


def test_several_words_are_answered_one_after_the_other(desk: Desk) -> None:
    assert desk.answer(" cab\tbead ") == desk.answer("cab") + desk.answer("bead")
    assert desk.answer("") == []
