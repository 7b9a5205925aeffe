"""`qkv see`: a page or arrays for bertviz, and refusals in one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from qkv.models.saved.folder import save_model
from tests.support.exported import decided_model
from tests.support.forks import Forks


@pytest.fixture(scope="module")
def models(in_memory: Path) -> Path:
    save_model(in_memory / "see" / "first", decided_model())
    save_model(in_memory / "see" / "second", decided_model(seed=1, num_heads=4))
    return in_memory / "see"


def test_a_page_and_the_output(models: Path, forks: Forks, scratch: Path) -> None:
    out = scratch / "see.html"
    ended = forks.qkv(
        "see", models / "first", "w001 w017", "search.size=2", "--compare", models / "second", "--out", out
    )
    assert ended.code == 0, ended.stderr
    records = json.loads(out.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0])["records"]
    assert [record["output"] for record in records] == ended.stdout.splitlines()
    assert [record["model"]["name"] for record in records] == ["first", "second"]
    assert records[0]["search"]["size"] == 2
    assert f"{out}: 6 attentions of first" in ended.stderr


def test_arrays_for_bertviz(models: Path, forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("see", models / "first", "w001", "--format", "bertviz", "--out", scratch / "a.npz")
    assert ended.code == 0, ended.stderr
    arrays = np.load(scratch / "a.npz")
    assert arrays["encoder_attention"].shape == (2, 1, 2, 2, 2)
    assert list(arrays["encoder_tokens"]) == ["w001", "</s>"]


def test_refusals(models: Path, forks: Forks, scratch: Path) -> None:
    refused = {
        (models / "first", ""): (2, "the text is empty"),
        (models / "first", "w001 \udcff"): (2, "the text is not valid UTF-8"),
        (models / "first", "w001", "search.size=0"): (2, "search.size"),
        (models / "first", "w001", "batch_tokens=5"): (2, "only settings of the search matter here"),
        (scratch / "none", "w001"): (1, "no such folder"),
        (models / "first", "w001", "--compare", models / "second", "--format", "bertviz"): (
            2,
            "it shows a text in one model",
        ),
        (models / "first", "w001", "--format", "bertviz"): (2, "must end with .npz or .json"),
    }
    for arguments, (code, sentence) in refused.items():
        ended = forks.qkv("see", *arguments, "--out", scratch / "x.html")
        assert ended.code == code, ended.stderr
        assert sentence in ended.complaint
    assert not (scratch / "x.html").exists()
