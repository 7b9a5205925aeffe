"""Every kind of model and search has its page: no attention, other attention, canvases, drafts, copies, streams."""

from pathlib import Path

from qkv.visual.see.page import InsideView
from tests.support.browser import VIEWS, Watched
from tests.support.seen import SHORT, copying, stepwise, transformer_with

TEXT = "w001 w017 w003"


def test_a_model_without_attention(watched: Watched, tmp_path: Path) -> None:
    InsideView([stepwise("bytenet", TEXT)]).save(tmp_path / "page.html")
    watched.open(tmp_path / "page.html")
    assert "has no attention" in watched.page.locator(".empty").inner_text()
    for view in VIEWS:
        watched.show(f"view={view}")
    assert watched.wrong == []


def test_what_only_some_models_and_searches_have(watched: Watched, tmp_path: Path) -> None:
    streaming = {"encoder_attention": "causal", "cross_attention": {"kind": "wait_k", "k": 2}}
    pages = [
        transformer_with("canvas", TEXT, None, decoder="mask_predict"),
        stepwise("recurrent", TEXT),
        copying("pointer_generator", "w001 unseen w003"),
        transformer_with("drafts", TEXT, {"kind": "speculative", "max_length": 4}),
        transformer_with("stream", TEXT, SHORT, **streaming),
        transformer_with("depth", TEXT, SHORT, stack="adaptive", residual="pre"),
    ]
    InsideView(pages).save(tmp_path / "page.html")
    watched.open(tmp_path / "page.html", "view=decoding")
    headings = " ".join(watched.texts("#panel h3"))
    for wanted in ("over the canvas", "Copying", "Speculative decoding", "Reading and writing", "Depth"):
        assert wanted in headings
    for view in VIEWS:
        watched.show(f"view={view}&side=cross&layer=1&head=1&token=1")
    assert watched.wrong == []
