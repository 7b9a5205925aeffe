"""Attention of dev pairs at each validation, and norms by layer, as a run writes them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.arrays import unpacked
from qkv.core.errors import CorruptFolder
from qkv.data.batch import collate
from qkv.layers.attention.recording import capture_attention
from qkv.models.saved.folder import load_model
from qkv.text.special import SPECIAL
from qkv.training.inside.gradients import gradient_norms, layer_of
from qkv.training.inside.snapshots import read_snapshots
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, changed, plain, write_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snapshots")
    recipe = changed(plain(write_data(folder / "data"), folder / "run", 20), validation={"every": "10u"})
    Trainer(as_recipe(changed(recipe, model={"encoder_layers": 2, "decoder_layers": 2}))).train()
    return folder / "run"


def test_weights_are_those_of_the_model_at_that_validation(run: Path) -> None:
    taken = read_snapshots(run / "attention")
    assert list(taken) == [10, 20]
    best = json.loads((run / "best" / "manifest.json").read_text())["update"]
    saved = load_model(run / "best")
    for pair in taken[best]["pairs"]:
        ids = [saved.tokenizers.src.encode("".join(pair[side][:-1])) for side in ("src", "tgt")]
        assert pair["src"][-1] == pair["tgt"][-1] == "</s>"
        batch = collate([ids[0]], [ids[1]], SPECIAL, SPECIAL, [0])
        with capture_attention(saved.model.eval()) as record, torch.no_grad():
            saved.model(batch)
        for number, layer in enumerate(pair["layers"]):
            wanted = record[f"decoder.layers.{number}.cross_attention"][0]
            torch.testing.assert_close(unpacked(layer), wanted, atol=0.5 / 255 + 1e-6, rtol=0)
    assert [len(pair["layers"]) for pair in taken[10]["pairs"]] == [2, 2]
    assert {side: len(norms) for side, norms in taken[10]["states"].items()} == {"encoder": 2, "decoder": 2}


def test_pairs_stay_the_same_and_weights_do_not(run: Path) -> None:
    first, last = read_snapshots(run / "attention").values()
    assert [pair["src"] for pair in first["pairs"]] == [pair["src"] for pair in last["pairs"]]
    assert first["pairs"][0]["layers"] != last["pairs"][0]["layers"]


def test_norms_of_the_layers_are_parts_of_the_whole(run: Path) -> None:
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "grad_norms" in line]
    assert [line["update"] for line in lines] == [10, 20]
    for line in lines:
        assert {"encoder.layers.0", "encoder.layers.1", "decoder.layers.1"} < set(line["grad_norms"])
        whole = math.sqrt(sum(norm**2 for norm in line["grad_norms"].values()))
        assert whole == pytest.approx(line["grad_norm"], rel=1e-4)


def test_names_of_layers() -> None:
    assert layer_of("encoder.layers.10.attention.query.weight") == "encoder.layers.10"
    assert layer_of("head.weight") == "head"
    assert gradient_norms(torch.nn.Linear(2, 2)) == {}


def test_none_are_taken_where_none_are_wanted(tmp_path: Path) -> None:
    recipe = changed(plain(write_data(tmp_path / "data"), tmp_path / "run", 4), validation={"attention_samples": 0})
    Trainer(as_recipe(recipe)).train()
    assert not (tmp_path / "run" / "attention").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda pair: pair["layers"][0].update(data="AAAA"),
        lambda pair: pair["layers"][0].update(shape=[1 << 14, 1 << 14, 1]),
        lambda pair: pair["layers"][0].update(data="?"),
        lambda pair: pair["src"].pop(),
        lambda pair: pair.update(src=[7]),
    ],
)
def test_files_that_do_not_fit_are_refused(run: Path, tmp_path: Path, change: Any) -> None:
    snapshot = json.loads((run / "attention" / "update-00000010.json").read_text())
    change(snapshot["pairs"][0])
    (tmp_path / "update-00000010.json").write_text(json.dumps(snapshot))
    with pytest.raises(CorruptFolder, match=r"update-00000010\.json"):
        read_snapshots(tmp_path)
