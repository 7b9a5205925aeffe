"""The page of a run in Chromium: its numbers are those of the log, it works by keyboard, and no text of it runs."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.arrays import unpacked
from qkv.training.inside.snapshots import read_snapshots
from qkv.training.trainer import Trainer
from qkv.visual.see.page import RunView
from tests.support.browser import Watched
from tests.support.payloads import PAYLOADS
from tests.support.tiny import as_recipe, changed, plain, validations_of, write_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    recipe = changed(plain(write_data(folder / "data"), folder / "run", 30), validation={"every": "10u"})
    Trainer(as_recipe(changed(recipe, model={"encoder_layers": 2, "decoder_layers": 2}))).train()
    return folder / "run"


@pytest.fixture(scope="module")
def file(run: Path) -> Path:
    RunView([run]).save(run.parent / "run.html")
    return run.parent / "run.html"


def shown(watched: Watched, file: Path) -> None:
    watched.open(file, "", ".snapshots canvas")


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_it_opens_from_disk_without_a_request(watched: Watched, file: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    shown(watched, file)
    assert watched.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    titles = watched.texts(".chart h3")
    assert {"Loss: nats a token", "Dev perplexity", "Learning rate", "Gradient, encoder", "States, decoder"} <= {
        *titles
    }
    assert watched.wrong == []


def test_curves_are_those_of_the_log(watched: Watched, file: Path, run: Path) -> None:
    shown(watched, file)
    chart = watched.page.locator(".chart", has_text="Loss: nats a token")
    chart.get_by_text("As a table").click()
    rows = {row.split()[0]: row.split()[1:] for row in chart.locator("tbody tr").all_inner_texts()}
    for line in validations_of(run):
        assert float(rows[str(line["validation"])][1]) == pytest.approx(line["loss"], rel=6e-3)
    chart.locator("svg").focus()
    for _ in range(3):
        watched.page.keyboard.press("ArrowRight")
    assert "update 4" in chart.locator(".legend").inner_text().replace("\xa0", " ")
    assert watched.wrong == []


def test_the_strip_shows_each_validation(watched: Watched, file: Path, run: Path) -> None:
    taken = read_snapshots(run / "attention")
    shown(watched, file)
    thumbs = watched.page.locator(".snapshots .thumb")
    assert thumbs.count() == len(taken) == 3
    watched.page.get_by_role("button", name="Head 2").click()
    thumbs.nth(2).focus()
    watched.page.keyboard.press("ArrowLeft")
    assert thumbs.nth(1).get_attribute("aria-pressed") == "true"
    weights = unpacked(taken[20]["pairs"][0]["layers"][-1])[1]
    rows = weights / weights.sum(-1, keepdim=True)
    entropy = float(-(rows * rows.clamp_min(1e-9).log()).sum(-1).mean())
    assert float(thumbs.nth(1).inner_text().split()[-1]) == pytest.approx(entropy, rel=6e-3)
    watched.page.locator(".large .heatmap canvas").focus()
    watched.page.keyboard.press("ArrowDown")
    reading = watched.texts(".large figcaption")[0].split()[-1]
    torch.testing.assert_close(float(reading), float(weights[1, 0]), atol=6e-4, rtol=6e-3)
    assert watched.wrong == []


def test_two_runs_stand_beside_each_other(watched: Watched, run: Path, tmp_path: Path) -> None:
    RunView([run, run]).save(tmp_path / "two.html")
    shown(watched, tmp_path / "two.html")
    assert watched.texts("header .name") == ["run (1)", "run (2)"]
    assert watched.page.locator(".snapshots").count() == 2
    assert watched.wrong == []


def spoiled(record: dict[str, Any], start: int) -> dict[str, Any]:
    """Payloads as the name of the run, of a score, of a layer and as tokens."""
    texts = PAYLOADS[start:] + PAYLOADS[:start]
    pair = record["snapshots"][0]["pairs"][0]
    src, tgt = texts[: len(pair["src"])], texts[-len(pair["tgt"]) :]
    return {
        **record,
        "name": " ".join(texts[:4]),
        "validation": dict.fromkeys(texts[:4], record["validation"]["loss"]),
        "gradients": dict.fromkeys(texts[4:8], next(iter(record["gradients"].values()))),
        "snapshots": [{**record["snapshots"][0], "pairs": [{**pair, "src": src, "tgt": tgt}]}],
    }


def test_payloads_stay_text(watched: Watched, run: Path, tmp_path: Path) -> None:
    view = RunView([run])
    record = view.runs[0]
    for start in range(0, 60, 20):
        view.runs = [spoiled(record, place) for place in range(start, start + 20, 4)]
        view.save(tmp_path / "bad.html")
        shown(watched, tmp_path / "bad.html")
        assert watched.page.evaluate("window.ran") is None
        assert watched.page.locator("script").count() == 2
        assert watched.page.locator("img, iframe, object, embed, audio, video, form, link, base, math").count() == 0
        assert PAYLOADS[start] in watched.page.title()
    assert watched.wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(watched: Watched, file: Path, axe: str, theme: str) -> None:
    watched.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    shown(watched, file)
    for summary in watched.page.locator("summary").all():
        summary.click()
    assert watched.violations(axe) == []
