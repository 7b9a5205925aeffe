"""Texts that try to run, texts of other scripts, and long ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from qkv import Translator, capture_attention
from qkv.translate.output import TokenChoice
from qkv.visual.see.page import InsideView
from qkv.visual.see.sentence import SeenSentence, see_sentence
from tests.support.browser import VIEWS, Watched
from tests.support.exported import decided_model
from tests.support.payloads import PAYLOADS


@pytest.fixture(scope="module")
def seen() -> SeenSentence:
    return see_sentence(decided_model(), "w001 w017", {"kind": "beam", "size": 2, "min_length": 3, "max_length": 4})


def spoiled(seen: SeenSentence, payload: str, number: int) -> SeenSentence:
    """The payload as every text of the page: source, output, token, candidate, hypothesis and model name."""
    tokens = [PAYLOADS[(number + place) % len(PAYLOADS)] for place in range(len(seen.written))]
    nodes = [replace(node, label=payload, parent=None) for node in seen.decoded.beam[:2]]
    return replace(
        seen,
        name=payload,
        text=payload,
        output=payload,
        src_tokens=[payload] * len(seen.src_tokens),
        read=tokens,
        written=tokens,
        candidates=[[TokenChoice(payload, each.probability) for each in step] for step in seen.candidates],
        decoded=replace(seen.decoded, beam=nodes),
    )


def test_sixty_payloads_stay_text(watched: Watched, seen: SeenSentence, tmp_path: Path) -> None:
    assert len(set(PAYLOADS)) == 60
    for start in range(0, 60, 20):
        pages = [spoiled(seen, PAYLOADS[number], number) for number in range(start, start + 20)]
        InsideView(pages).save(tmp_path / "bad.html")
        watched.open(tmp_path / "bad.html")
        for view in VIEWS:
            watched.show(f"view={view}&side=cross&layer=1&head=1&token=1")
            for summary in watched.page.locator("summary").all()[:3]:
                summary.click()
        assert watched.page.evaluate("window.ran") is None
        assert watched.page.locator("script").count() == 2
        assert watched.page.locator("img, iframe, object, embed, audio, video, form, link, base, math").count() == 0
        assert PAYLOADS[start] in watched.page.title()
    assert watched.wrong == []


def test_notebook_output_runs_nothing(watched: Watched, seen: SeenSentence) -> None:
    translator = Translator(seen.saved, engine="torch", search="greedy")
    with capture_attention(seen.saved.model) as record:
        found = translator.translate("w001 w017")
    shown = []
    for payload in PAYLOADS:
        bad = replace(found, text=payload, tokens=[payload], src_tokens=[payload], alternatives=[])
        shown.append(replace(bad, alternatives=[bad])._repr_html_())
    record.passes = dict.fromkeys(PAYLOADS, next(iter(record.passes.values())))
    numbers = [range(start, start + 20) for start in range(0, 60, 20)]
    views = [InsideView([spoiled(seen, PAYLOADS[number], number) for number in part]) for part in numbers]
    frames = "".join(view._repr_html_() for view in views)
    watched.page.set_content("".join(shown) + record._repr_html_() + frames)
    for place in range(3):
        watched.page.frame_locator("iframe").nth(place).locator("[role=tabpanel]").wait_for()
    assert watched.page.evaluate("window.ran") is None
    assert watched.page.locator("script").count() == 0
    assert [frame.evaluate("window.ran") for frame in watched.page.frames[1:]] == [None] * 3
    assert [wrong for wrong in watched.wrong if "data:image/png" not in wrong] == []


def test_the_frame_cannot_reach_the_notebook(watched: Watched, seen: SeenSentence) -> None:
    watched.page.set_content(InsideView([seen])._repr_html_())
    watched.page.frame_locator("iframe").locator("#tab-matrix").click()
    assert watched.page.frames[1].evaluate("origin") == "null"


def test_scripts_from_right_to_left_and_combining_marks(watched: Watched, seen: SeenSentence, tmp_path: Path) -> None:
    words = ["مرحبا", "بالعالم", "</s>"]
    InsideView([replace(seen, src_tokens=words, text="مرحبا بالعالم")]).save(tmp_path / "arabic.html")
    watched.open(tmp_path / "arabic.html")
    sentence = watched.page.locator(".sentence").first
    assert sentence.evaluate("element => getComputedStyle(element).direction") == "rtl"
    first, second = (sentence.locator("button").nth(place).bounding_box() for place in (0, 1))
    assert first is not None
    assert second is not None
    assert first["x"] > second["x"]
    marks = ["क्षि", "e\u0301\u0323", "</s>"]
    InsideView([replace(seen, src_tokens=marks)]).save(tmp_path / "marks.html")
    watched.open(tmp_path / "marks.html")
    assert watched.texts(".pair section:first-child .word") == marks


def test_512_tokens_are_windowed(watched: Watched, tmp_path: Path) -> None:
    text = " ".join(f"w{number % 40:03}" for number in range(511))
    search = {"kind": "greedy", "max_length": 512, "min_length": 511}
    long = see_sentence(decided_model(end=0.001), text, search)
    InsideView([long]).save(tmp_path / "long.html")
    watched.open(tmp_path / "long.html", "view=heads&side=encoder&layer=1&head=1&token=none")
    rows = watched.page.locator(".headview .left li")
    assert 10 < rows.count() < 80
    watched.page.locator(".headview").evaluate("element => { element.scrollTop = 400 * 26 }")
    watched.page.wait_for_function("() => document.querySelector('.headview .left li').style.top !== '0px'")
    assert rows.count() < 80
    for view in ("model", "matrix", "decoding", "positions"):
        watched.show(f"view={view}&side=encoder&layer=1&head=1&token=400")
    assert watched.wrong == []
