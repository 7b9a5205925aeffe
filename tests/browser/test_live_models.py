"""The page of a server with two models for one pair of languages: a word at a time, and all words at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qkv import Translator
from qkv.models.saved.folder import save_model
from tests.support.browser import Watched
from tests.support.exported import decided_model
from tests.support.live import LiveServer, live_server

TEXT = "w001 w017 w003"
WAIT = 60_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    save_model(made / "steps", decided_model(residual="pre"))
    save_model(made / "canvas", decided_model(decoder="mask_predict"))
    return made


@pytest.fixture(scope="module")
def both(browser: object, folder: Path) -> Iterator[LiveServer]:
    with live_server(f"{folder / 'steps'}=aa-bb", f"{folder / 'canvas'}=aa-bb") as started:
        started.wait()
        yield started


def test_two_models_beside_each_other_and_the_passes_of_one(watched: Watched, both: LiveServer, folder: Path) -> None:
    from playwright.sync_api import expect

    watched.visit(both.address, f"text={TEXT.replace(' ', '+')}&model=steps")
    watched.page.locator(".output:not(.stale) .unit").first.wait_for(timeout=WAIT)
    watched.page.get_by_role("button", name="Compare").click()
    second = watched.page.locator(".pane").nth(2)
    second.locator(".speed").wait_for(timeout=WAIT)
    assert watched.page.locator("select").filter(has_text="canvas").nth(1).input_value() == "canvas"
    assert all("ms" in text and "tokens/s" in text for text in watched.texts(".speed"))
    for place, name in ((1, "steps"), (2, "canvas")):
        words = watched.page.locator(".pane").nth(place).locator(".words")
        assert words.text_content() == Translator(folder / name).translate(TEXT).text
    watched.page.locator("#panel section").nth(1).wait_for(timeout=WAIT)
    second.get_by_role("button", name="Search: Refinement").click()
    passes = second.get_by_role("dialog").get_by_role("slider", name="Passes")
    passes.fill("1")
    expect(second.locator("button.select .number")).to_have_text("1", timeout=WAIT)
    second.locator(".output:not(.stale) .words").wait_for(timeout=WAIT)
    watched.page.keyboard.press("Escape")
    one = Translator(folder / "canvas", search={"kind": "refine", "passes": 1}).translate(TEXT).text
    watched.expect_text(".pane:nth-child(3) .words", one)
    assert watched.wrong == []


def test_a_model_that_writes_all_at_once_says_that_words_have_no_alternatives(
    watched: Watched, both: LiveServer
) -> None:
    watched.visit(both.address, f"text={TEXT.replace(' ', '+')}&model=canvas")
    watched.page.locator(".output:not(.stale) .unit").first.click(timeout=WAIT)
    watched.page.get_by_text("This model writes all words at once").wait_for(timeout=WAIT)
    assert watched.wrong == []
