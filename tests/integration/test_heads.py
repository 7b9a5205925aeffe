"""`qkv heads`: tables, answers, the page, and what can be wrong."""

import json
from pathlib import Path

import pytest

from tests.support.commands import quiet, refused, written
from tests.support.forks import Forks
from tests.support.speaker import save_speaker

PAIRS = b"aa ab ba\tba aa\nba\tab ab\nbb ab\tbb\n"


@pytest.fixture(scope="module")
def given(in_memory: Path) -> tuple[Path, Path]:
    return save_speaker(in_memory / "heads"), written(in_memory / "heads.tsv", PAIRS)


def test_a_table_for_each_side_and_the_answers(given: tuple[Path, Path], scratch: Path, forks: Forks) -> None:
    model, data = given
    page = scratch / "heads.html"
    shown = quiet(forks.qkv("heads", model, "--data", data, "--html", page))
    for side in ("encoder", "decoder", "cross-attention"):
        assert f"Heads of the {side}" in shown
    assert "compare layers" in shown or "divergence" in shown
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    found = json.loads(quiet(forks.qkv("heads", model, "--data", data, "--pairs", 2, "--json")))
    assert found["pairs"] == 2


def test_scores_without_heads(given: tuple[Path, Path], forks: Forks) -> None:
    model, data = given
    shown = quiet(forks.qkv("heads", model, "--data", data, "--remove", "--curve", "--decode", 2, "--metrics", "chrf"))
    assert "chrF without one head" in shown
    assert "random (mean)" in shown


def test_a_pruned_model_is_accepted_by_the_other_verbs(given: tuple[Path, Path], scratch: Path, forks: Forks) -> None:
    model, data = given
    sources = written(scratch / "sources", b"aa ab ba\nba\n")
    pruned = scratch / "pruned"
    shown = quiet(forks.qkv("prune", model, "--heads", 3, "--data", data, "--out", pruned, "--metrics", "chrf"))
    assert "parameters instead of" in shown
    assert "times as many tokens a second" in shown
    for engine in ("torch", "ctranslate2"):
        assert quiet(forks.qkv("translate", pruned, "--input", sources, "--engine", engine)).count("\n") == 2
    assert quiet(forks.qkv("score", pruned, "--data", data)).count("\n") == 3
    quiet(forks.qkv("evaluate", pruned, "--data", data, "--metrics", "chrf"))
    quiet(forks.qkv("heads", pruned, "--data", data))
    quiet(forks.qkv("export", pruned, "--to", "huggingface", "--out", scratch / "hf"))
    quiet(forks.qkv("show", "mask", pruned, "--out", scratch / "mask.svg"))
    again = quiet(forks.qkv("prune", pruned, "--loss", 100, "--data", data, "--out", pruned, "--metrics", "chrf"))
    assert "removed 0 of 3 heads" in again


def test_refusals(given: tuple[Path, Path], scratch: Path, forks: Forks) -> None:
    model, data = given
    assert "is not a run" in refused(forks.qkv("heads", model), 2)
    assert "is also an input" in refused(forks.qkv("heads", model, "--data", data, "--html", data), 2)
    assert "say how many heads stay" in refused(forks.qkv("prune", model, "--out", scratch / "x", "--data", data), 2)
    few = refused(
        forks.qkv("prune", model, "--out", scratch / "x", "--data", data, "--heads", 1, "--metrics", "chrf"), 2
    )
    assert "give a number from 3 to" in few
    assert "no such folder" in refused(forks.qkv("heads", scratch / "none", "--data", data), 1)
