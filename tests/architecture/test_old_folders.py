"""Folders written by an earlier version: they load, translate, score and resume as they did then."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qkv import Trainer, Translator
from qkv.training.run.folder import read_metrics

FIXTURES = Path(__file__).parent.parent / "fixtures"
MODELS = ["autoregressive", "ctc", "recurrent"]

# Another processor rounds differently and adds in another order, which moves a log-probability by about 1e-6. A weight
# that is read into the wrong place moves it by far more than this.
CLOSE = 1e-3


def expected(name: str) -> Any:
    return json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODELS)
def test_an_old_model_translates(name: str) -> None:
    for case in expected(name)["translations"]:
        found = Translator(FIXTURES / name / "model", "torch", case["search"]).translate(case["sources"])
        assert [each.text for each in found] == case["texts"], case["search"]
        assert [each.score for each in found] == pytest.approx(case["scores"], rel=CLOSE, abs=CLOSE), case["search"]
        for each, scores in zip(found, case["token_scores"], strict=True):
            assert each.token_scores == pytest.approx(scores, rel=CLOSE, abs=CLOSE), case["search"]


@pytest.mark.parametrize("name", ["autoregressive", "recurrent"])
def test_an_old_model_scores(name: str) -> None:
    translator = Translator(FIXTURES / name / "model", "torch")
    for case in expected(name)["pairs"]:
        found = translator.score((case["source"], case["target"]))
        assert found.tokens == case["tokens"]
        assert found.token_scores == pytest.approx(case["token_scores"], rel=CLOSE, abs=CLOSE)


def test_an_old_run_resumes(tmp_path: Path) -> None:
    """From update 6, with the optimiser's moments, the order of the data and the random numbers of the rest."""
    run = shutil.copytree(FIXTURES / "run", tmp_path / "run", ignore=shutil.ignore_patterns("expected.json"))
    assert Trainer.resume(run).train().finished
    wanted = expected("run")
    lines = list(read_metrics(run / "metrics.jsonl"))
    updates = [line for line in lines if line.get("update", 0) > 6]
    assert [line["update"] for line in updates] == [line["update"] for line in wanted["updates"]]
    for key in ("loss", "nll", "grad_norm", "lr", "tgt_tokens"):
        assert [line[key] for line in updates] == pytest.approx([line[key] for line in wanted["updates"]], rel=1e-3)
    scores = [line["loss"] for line in lines if "validation" in line]
    assert scores == pytest.approx(wanted["validation_losses"], rel=1e-3)
