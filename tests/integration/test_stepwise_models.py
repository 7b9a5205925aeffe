"""Models other than the Transformer from the command line: train, resume, translate, score, export."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.models.saved.folder import load_model, save_model
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.tiny import as_recipe, assert_same, plain, write_recipe

MODELS: dict[str, dict[str, Any]] = {
    "recurrent": {"encoder_layers": 2, "decoder_layers": 2},
    "convolutional": {"encoder_layers": 2, "decoder_layers": 2},
    "bytenet": {"dilations": [1, 2]},
    "neural_gpu": {"rows": 2, "layers": 1},
    "memory_network": {"separator": "a", "hops": 2},
}


def recipe(kind: str, data: Path, run: Path, updates: int) -> dict[str, Any]:
    return plain(data, run, updates) | {"model": {"kind": kind, "d_model": 16, "dropout": 0.1, **MODELS[kind]}}


@pytest.fixture(scope="module", params=MODELS)
def run(request: pytest.FixtureRequest, data: Path, in_memory: Path, forks: Forks) -> Path:
    kind: str = request.param
    folder = Path(tempfile.mkdtemp(dir=in_memory))
    ended = forks.qkv("train", write_recipe(folder / "recipe.yaml", recipe(kind, data, folder / kind, 8)))
    assert ended.code == 0, ended.stderr
    return folder / kind


@pytest.fixture(scope="module")
def transformer(data: Path, in_memory: Path, forks: Forks) -> Path:
    """A run of another kind, with the same data."""
    folder = Path(tempfile.mkdtemp(dir=in_memory))
    ended = forks.qkv("train", write_recipe(folder / "recipe.yaml", plain(data, folder / "transformer", 8)))
    assert ended.code == 0, ended.stderr
    return folder / "transformer"


def test_it_is_saved_and_loaded(run: Path, scratch: Path) -> None:
    saved = load_model(run)
    assert saved.model.kind == run.name
    save_model(scratch / "copy", saved)
    for one, two in zip(saved.model.parameters(), load_model(scratch / "copy").model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_it_translates_and_scores(run: Path, scratch: Path, forks: Forks) -> None:
    (scratch / "lines").write_text("abc\nca\n")
    for search in (["search.kind=greedy"], ["search.size=3"], ["search.kind=sample"]):
        ended = forks.qkv("translate", run, *search, "--input", scratch / "lines")
        assert ended.code == 0, ended.stderr
        assert len(ended.stdout.splitlines()) == 2
    (scratch / "src").write_text("abc\n")
    (scratch / "tgt").write_text("cba\n")
    ended = forks.qkv("score", run, "--src", scratch / "src", "--tgt", scratch / "tgt")
    assert ended.code == 0, ended.stderr


def test_it_is_compared_with_a_transformer(transformer: Path, run: Path, data: Path, forks: Forks) -> None:
    """By one metric on the same data; each is decoded as it would be alone."""
    asked = ("--metrics", "chrf", "--json")
    ended = forks.qkv("compare", transformer, run, *asked)
    assert ended.code == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["outputs"] == len((data / "dev.src").read_text().splitlines())
    systems = found["metrics"]["chrf"]["systems"]
    assert list(systems) == [str(transformer), str(run)]
    assert "p_bootstrap" in systems[str(run)]
    assert "p_bootstrap" not in systems[str(transformer)]
    alone = json.loads(forks.qkv("evaluate", run, *asked).stdout)
    assert systems[str(run)]["score"] == alone["dev"]["scores"]["chrf"]["score"]


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface", "onnx"])
def test_it_is_not_exported(run: Path, scratch: Path, forks: Forks, target: str) -> None:
    ended = forks.qkv("export", run, "--to", target, "--out", scratch / "out")
    assert ended.code == 2
    assert f"has no form of model.kind {run.name}" in ended.stderr
    assert not (scratch / "out").exists()


def test_drafts_are_refused(run: Path, scratch: Path, forks: Forks) -> None:
    (scratch / "lines").write_text("abc\n")
    ended = forks.qkv("translate", run, "--draft", "jacobi", "--input", scratch / "lines")
    assert ended.code == 2
    assert f"a model of the kind {run.name} " in ended.stderr


def test_a_curriculum_is_resumed_in_the_middle(data: Path, scratch: Path) -> None:
    """Short pairs first, in an order that the epoch alone decides; dev data are read as a whole."""
    keys = recipe("neural_gpu", data, scratch / "straight", 12) | {
        "batch": {"tokens": 96, "curriculum": {"start": 4, "growth": 2}}
    }
    Trainer(as_recipe(keys)).train()
    Trainer(
        as_recipe(keys | {"run": str(scratch / "run"), "training": keys["training"] | {"stop_after": "4u"}})
    ).train()
    assert Trainer.resume(scratch / "run", ["training.stop_after=12u"]).train().updates == 12
    assert_same(scratch / "run", scratch / "straight")
    everything = [line for line in read_metrics(scratch / "straight" / "metrics.jsonl") if "epoch" in line]
    assert everything[-1]["epoch"] > 2
