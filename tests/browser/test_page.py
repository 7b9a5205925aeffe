"""The page of `qkv see` in Chromium: its numbers are the model's, and it works by keyboard and at every width."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.models.saved.folder import save_model
from qkv.visual.see.page import InsideView
from qkv.visual.see.sentence import SeenSentence, see_sentence
from tests.support.browser import VIEWS, Watched
from tests.support.exported import decided_model

TEXT = "w001 w017 w003 w020"


@pytest.fixture(scope="module")
def seen() -> SeenSentence:
    return see_sentence(
        decided_model(residual="pre"), TEXT, {"kind": "beam", "size": 3, "min_length": 4, "max_length": 7}
    )


@pytest.fixture(scope="module")
def file(seen: SeenSentence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "see.html"
    InsideView([seen]).save(path)
    return path


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("%", "").replace("<", "").split()[-1])


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_every_view_opens_from_disk_without_a_request(watched: Watched, file: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    watched.open(file)
    for view in VIEWS:
        watched.show(f"view={view}&side=decoder&layer=2&head=1&token=2")
        assert watched.page.locator("[role=tabpanel] section").first.inner_text()
        beyond = watched.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, f"{view} is wider than the screen"
    assert watched.wrong == []


@pytest.mark.parametrize("side", ["encoder", "decoder", "cross"])
def test_numbers_are_those_of_the_model(watched: Watched, file: Path, seen: SeenSentence, side: str) -> None:
    layers = [each for each in seen.attentions if each.side == side]
    query = min(2, layers[1].weights.shape[1] - 1)
    watched.open(file, f"view=heads&side={side}&layer=2&head=2&token={query + 1}")
    wanted = layers[1].weights[1, query]
    shown = torch.tensor([number(text) for text in watched.texts(".headview .key .number")])
    torch.testing.assert_close(shown, wanted, atol=6e-4, rtol=0.05)
    watched.show(f"view=equation&side={side}&layer=2&head=2&token={query + 1}")
    steps = torch.tensor([number(text) for text in watched.texts("[data-weight]")])
    torch.testing.assert_close(steps, wanted, atol=2e-3, rtol=0.05)
    watched.show(f"view=matrix&side={side}&layer=2&head=2&token={query + 1}")
    watched.page.get_by_text("As a table").click()
    watched.page.wait_for_selector(".table tbody td")
    cells = torch.tensor([number(text) for text in watched.texts(".table tbody td")]).view(-1, 2)
    torch.testing.assert_close(cells[:, 1], wanted, atol=6e-4, rtol=0.05)
    watched.page.locator(".heatmap canvas").focus()
    watched.page.keyboard.press("ArrowRight")
    assert number(watched.texts(".heatmap figcaption")[0]) == pytest.approx(float(layers[1].weights[1, 0, 1]), abs=6e-4)
    assert watched.wrong == []


def test_switches_of_the_equation_change_its_weights(watched: Watched, file: Path, seen: SeenSentence) -> None:
    watched.open(file, "view=equation&side=decoder&layer=1&head=1&token=1")
    masked = [number(text) for text in watched.texts("[data-weight]")]
    assert masked[0] == pytest.approx(1.0)
    assert sum(masked[1:]) == 0
    watched.page.get_by_label("mask").uncheck()
    assert 0 < number(watched.texts("[data-weight]")[1]) < 1
    assert "as the model computed it" in watched.page.locator(".note").inner_text()
    vectors = seen.attentions[2].vectors
    assert vectors is not None
    watched.page.get_by_label("divide by").uncheck()
    wanted = (vectors.q[0, 0] @ vectors.k[0].T).softmax(-1)
    shown = torch.tensor([number(text) for text in watched.texts("[data-weight]")])
    torch.testing.assert_close(shown, wanted, atol=4e-3, rtol=0.05)


def test_the_python_of_the_equation_gives_the_weights(
    watched: Watched, file: Path, seen: SeenSentence, tmp_path: Path
) -> None:
    save_model(tmp_path / "model", seen.saved)
    watched.open(file, "view=equation&side=encoder&layer=2&head=2&token=2")
    watched.page.get_by_text("The same in Python").click()
    code = watched.page.locator("pre").inner_text().replace('"MODEL"', repr(str(tmp_path / "model")))
    names: dict[str, Any] = {}
    exec(code, names)
    wanted = next(each for each in seen.attentions if each.side == "encoder" and each.layer == 1).weights[1, 1]
    torch.testing.assert_close(names["weights"], wanted, atol=1e-5, rtol=1e-4)


def test_candidates_and_the_beam(watched: Watched, file: Path, seen: SeenSentence) -> None:
    watched.open(file, "view=decoding&side=cross&token=1")
    first = watched.page.locator(".choices > li").first
    shares = [number(text.split("%")[0]) for text in first.locator("ul .number").all_inner_texts()]
    wanted = [100 * each.probability for each in seen.candidates[0]]
    assert shares == pytest.approx(wanted, abs=0.06)
    assert watched.page.locator(".beam .node").count() == len(seen.decoded.beam)
    assert watched.page.locator(".beam .node.best").count() == sum(node.best for node in seen.decoded.beam)


def test_the_diagram_tells_of_each_box(watched: Watched, file: Path, seen: SeenSentence) -> None:
    watched.open(file, "view=architecture&layer=2")
    watched.page.get_by_role("button", name="Cross-attention, decoder, layer 2").press("Enter")
    about = watched.page.locator(".about").inner_text()
    attention = seen.saved.model.get_submodule("decoder.layers.1.cross_attention")
    assert f"{sum(weight.numel() for weight in attention.parameters()):,}" in about
    assert "qkv/layers/attention/multi_head.py:" in about
    watched.page.get_by_role("button", name="Its equation").click()
    assert "view=equation&side=cross&layer=2" in watched.page.url


def test_everything_can_be_done_by_keyboard(watched: Watched, file: Path) -> None:
    watched.open(file, "view=heads&side=cross&layer=1&head=all&token=none")
    keyboard = watched.page.keyboard
    watched.page.locator("#panel").focus()
    for key, wanted in (
        ("ArrowRight", "view=heads&side=cross&layer=1&head=all&token=1"),
        ("ArrowRight", "view=heads&side=cross&layer=1&head=all&token=2"),
        ("ArrowDown", "view=heads&side=cross&layer=1&head=1&token=2"),
        ("]", "view=heads&side=cross&layer=2&head=1&token=2"),
        ("]", "view=heads&side=cross&layer=2&head=1&token=2"),
        ("e", "view=heads&side=encoder&layer=2&head=1&token=2"),
        ("a", "view=heads&side=encoder&layer=2&head=all&token=2"),
        ("3", "view=matrix&side=encoder&layer=2&head=all&token=2"),
    ):
        keyboard.press(key)
        watched.page.wait_for_function("hash => location.hash === hash", arg=f"#{wanted}")
    keyboard.press("?")
    assert watched.page.get_by_role("complementary", name="Keys").is_visible()
    keyboard.press("Escape")
    watched.page.locator("#tab-matrix").focus()
    keyboard.press("ArrowRight")
    assert watched.page.evaluate("document.activeElement.id") == "tab-equation"


def test_an_address_that_makes_no_sense_shows_the_first_view(watched: Watched, file: Path) -> None:
    watched.open(file, "view=<script>&side=x&layer=999&head=1e9&token=-3")
    assert watched.page.locator("#tab-heads").get_attribute("aria-selected") == "true"
    assert watched.wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(watched: Watched, file: Path, axe: str, theme: str) -> None:
    watched.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    watched.open(file)
    for view in VIEWS:
        watched.show(f"view={view}&side=decoder&layer=2&head=1&token=2")
        for summary in watched.page.locator("summary").all():
            summary.click()
        assert watched.violations(axe) == [], f"{view}, {theme}"
