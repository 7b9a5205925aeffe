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


def test_refusals(given: tuple[Path, Path], scratch: Path, forks: Forks) -> None:
    model, data = given
    assert "is not a run" in refused(forks.qkv("heads", model), 2)
    assert "is also an input" in refused(forks.qkv("heads", model, "--data", data, "--html", data), 2)
    assert "no such folder" in refused(forks.qkv("heads", scratch / "none", "--data", data), 1)
