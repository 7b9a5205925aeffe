"""The package of examples/kinds, installed: seven kinds from outside, without an edit in qkv."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qkv.config import write_yaml
from tests.support.tiny import final_hashes, plain, write_data

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "kinds"
OWN_PARTS = {
    "model": {
        "encoder_attention": "sharpened",
        "cross_attention": "sharpened",
        "positions": "gaussian",
        "head": "pointer",
    },
    "optimizer": {"kind": "lion"},
    "validation": {"metrics": ["first"], "best": "first", "search": {"kind": "cautious", "end": 0.3}},
}
OWN_DECODER = {"model": {"decoder": "same_length"}, "validation": {"metrics": ["first"], "best": "first"}}


class Installed:
    """Python with the package installed beside qkv."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def python(self, folder: Path, program: str) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{self.site}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    site = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "kinds"
    subprocess.run(["cp", "-r", str(PACKAGE), str(source)], check=True)  # building leaves files beside the sources
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, capture_output=True)
    return Installed(site)


def recipe(folder: Path, name: str, parts: dict[str, Any], updates: int) -> None:
    """A recipe file with a run of the same name."""
    base = plain(write_data(folder / "data"), folder / name, updates)
    merged = base | {group: base.get(group, {}) | keys for group, keys in parts.items()}
    (folder / f"{name}.yaml").write_text(write_yaml(merged), encoding="utf-8")


def test_every_kind_is_known_where_the_package_is_installed(installed: Installed, tmp_path: Path) -> None:
    program = """
import json
from qkv.core.plugins import load_installed
load_installed()
from qkv import attentions, optimizers, positions
from qkv.evaluation.metrics.registry import METRICS
from qkv.models.decoders import decoders
from qkv.models.heads import heads
from qkv.search.base import searches
registries = (attentions, positions, decoders, heads, METRICS, optimizers, searches)
print(json.dumps([list(registry.names()) for registry in registries]))
"""
    known = json.loads(installed.python(tmp_path, program))
    for kind, names in zip(
        ["sharpened", "gaussian", "same_length", "pointer", "first", "lion", "cautious"], known, strict=True
    ):
        assert kind in names


OWN_PARTS_PROGRAM = """
import torch
from qkv import Recipe, Trainer, Translator, load_config, load_model, score
from qkv.search.models import ModelSteps, PrefixSteps

for name in ("straight", "run"):
    Trainer(load_config(Recipe, name + ".yaml")).train()
Trainer.resume("run", ["training.stop_after=8u"]).train()

model = load_model("run").model
src = torch.tensor([[5, 6, 7, 3], [8, 5, 3, 0]])
both = ModelSteps(model), PrefixSteps(model)
states, token = [steps.start(src, src != 0) for steps in both], torch.tensor([2, 2])
for _ in range(4):
    outputs, states = zip(*(steps.step(token, state) for steps, state in zip(both, states)))
    torch.testing.assert_close(outputs[0].log_probs, outputs[1].log_probs, rtol=1e-4, atol=1e-5)
    token = outputs[0].log_probs.argmax(dim=-1)

found = Translator("run", search={"kind": "cautious", "end": 1.0, "max_length": 7}).translate(["abc", "feed"])
assert [len(one.tokens) for one in found] == [7, 7]
print(score([one.text for one in found], ["cba", "deef"], metrics=["first"]))
"""


def test_own_parts_train_resume_and_translate(installed: Installed, tmp_path: Path) -> None:
    """Attention, positions, head, optimiser, metric and search in one run, resumed exactly; cached steps are right."""
    recipe(tmp_path, "straight", OWN_PARTS, 8)
    recipe(tmp_path, "run", OWN_PARTS, 4)
    assert installed.python(tmp_path, OWN_PARTS_PROGRAM).startswith("{'first': ")
    assert final_hashes(tmp_path / "run") == final_hashes(tmp_path / "straight")


def test_an_own_decoder_brings_its_objective_and_its_reader(installed: Installed, tmp_path: Path) -> None:
    recipe(tmp_path, "run", OWN_DECODER, 8)
    program = """
from qkv import Recipe, Trainer, Translator, load_config
Trainer(load_config(Recipe, "run.yaml")).train()
print(Translator("run").translate("abc").text)
"""
    assert len(installed.python(tmp_path, program).strip()) <= len("abc") + 1
