"""The interface in Chinese: nothing that a person reads or hears is left in English."""

import re
from pathlib import Path

from qkv.training.trainer import Trainer
from qkv.visual.see.page import InsideView, RunView
from tests.support.browser import VIEWS, Watched
from tests.support.live import LiveServer
from tests.support.seen import SHORT, copying, stepwise, transformer_with
from tests.support.tiny import as_recipe, changed, plain, write_data

ENGLISH = (Path(__file__).parents[1] / "support" / "english.js").read_text(encoding="utf-8")
NAMES = re.compile(
    "es-en|torch|canvas|recurrent|bytenet|pointer_generator|drafts|stream|depth|run|perplexity|last|refine"
    "|src tokens|attention|first|readout|enter|final|Sinusoidal"
)
"""Of models, runs, engines, kinds, metrics and modules."""


def left_in_english(watched: Watched) -> list[str]:
    found: list[str] = watched.page.evaluate(ENGLISH)
    return [text for text in found if re.search("[A-Za-z]{2}", NAMES.sub("", text))]


def in_chinese(watched: Watched) -> None:
    watched.page.get_by_role("button", name="中文").click()
    watched.page.get_by_role("button", name="English").wait_for()
    assert watched.page.evaluate("document.documentElement.lang") == "zh-Hans"


def every_view(watched: Watched) -> None:
    for view in VIEWS:
        watched.page.locator(f"#tab-{view}").click()
        watched.page.locator(f"#panel[aria-labelledby=tab-{view}]").wait_for()
        for summary in watched.page.locator("#panel summary").all():
            summary.click()
        assert (view, left_in_english(watched)) == (view, [])


def test_the_page_of_the_server(watched: Watched, server: LiveServer) -> None:
    watched.visit(server.address, "text=No+s%C3%A9.&model=es-en")
    watched.page.locator("#panel").wait_for(timeout=60_000)
    assert len(left_in_english(watched)) > 20, "in English the test finds something"
    in_chinese(watched)
    every_view(watched)
    watched.page.get_by_role("button", name="快捷键").click()
    watched.page.locator(".unit").first.click()
    watched.page.locator("[role=option]").first.wait_for(timeout=60_000)
    assert left_in_english(watched) == []
    watched.page.keyboard.press("Escape")
    for name in ("历史", "代码", "对比"):
        watched.page.get_by_role("button", name=name, exact=True).click()
        assert left_in_english(watched) == [], name
    watched.page.locator(".select").first.click()
    for chip in watched.page.get_by_role("dialog").locator(".chip").all():
        chip.click()
        assert left_in_english(watched) == []


def test_what_only_some_models_and_searches_have(watched: Watched, tmp_path: Path) -> None:
    text = "1 2 3"
    streaming = {"encoder_attention": "causal", "cross_attention": {"kind": "wait_k", "k": 2}}
    pages = [
        transformer_with("canvas", text, None, decoder="mask_predict"),
        stepwise("recurrent", text),
        stepwise("bytenet", text),
        copying("pointer_generator", text),
        transformer_with("drafts", text, {"kind": "speculative", "max_length": 4}),
        transformer_with("stream", text, SHORT, **streaming),
        transformer_with("depth", text, SHORT, stack="adaptive", residual="pre"),
    ]
    InsideView(pages).save(tmp_path / "page.html")
    watched.open(tmp_path / "page.html", "view=heads&side=encoder&layer=1&head=1&token=1")
    in_chinese(watched)
    every_view(watched)
    assert watched.wrong == []


def test_the_page_of_a_run(watched: Watched, tmp_path: Path) -> None:
    recipe = changed(plain(write_data(tmp_path / "data"), tmp_path / "run", 20), validation={"every": "10u"})
    Trainer(as_recipe(recipe)).train()
    RunView([tmp_path / "run", tmp_path / "run"]).save(tmp_path / "run.html")
    watched.open(tmp_path / "run.html", "", ".snapshots canvas")
    in_chinese(watched)
    for summary in watched.page.locator("summary").all():
        summary.click()
    assert left_in_english(watched) == []
    assert watched.wrong == []
