"""A demonstration that seems to have trained: a small random model in the place of the best one."""

import json
from pathlib import Path

import pytest
import torch

from qkv.core.files import new_folder
from qkv.demo import desk, folder
from qkv.demo.folder import DemoFolder
from qkv.models.saved.folder import SavedConfig, SavedModel, save_model
from qkv.text import CharacterConfig, TextConfig, WhitespaceConfig
from qkv.training.run.checkpoint import STATE
from qkv.training.run.state import RunProgress, TrainState
from tests.support.small import small_config, stir

DICTIONARY = {
    "abba": ["AE B AH"],
    "bead": ["B IY D"],
    "cab": ["K AE B", "S IY AE B"],
    "d.": ["D IY"],
    "dab": ["D AE B"],
    "i'd": ["AY D"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoFolder:
    """`cab` and `dab` are held out, the others were learned from."""
    for module in (desk, folder):
        monkeypatch.setattr(module, "read_cmudict", lambda: DICTIONARY)
    found = DemoFolder(tmp_path / "demo")
    lines = [f"{word}\t{answer}\n" for word, answers in DICTIONARY.items() for answer in answers]
    found.run.create()
    (found.path / "test.tsv").write_text("".join(line for line in lines if "ab\t" in line), encoding="utf-8")
    (found.path / "train.tsv").write_text("".join(line for line in lines if "ab\t" not in line), encoding="utf-8")
    text = TextConfig(src=CharacterConfig(), tgt=WhitespaceConfig())
    pair = text.train(lambda: ["abcdei'."], lambda: ["AE B AH IY D K S AY"])
    torch.manual_seed(1)
    config = small_config()
    saved = SavedModel(config.build(pair).eval(), pair, SavedConfig(model=config, text=text))
    stir(saved.model)
    save_model(found.run.best, saved, {"update": 7})
    state = TrainState(progress=RunProgress(updates=7, minutes=4.25), finished=True)
    with new_folder(found.run.checkpoints / "step-00000007", {"what": "checkpoint"}) as checkpoint:
        (checkpoint / STATE).write_text(json.dumps(state.as_dict()), encoding="utf-8")
    return found
