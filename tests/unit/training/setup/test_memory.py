"""A model that cannot be trained in the memory that is free is refused before anything of it is allocated."""

from pathlib import Path

import pytest

from qkv.core.errors import QkvError
from qkv.training.progress import SilentTrainingReporter
from qkv.training.setup import memory
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, plain


def test_a_giant_is_refused_in_one_sentence(data: Path, scratch: Path) -> None:
    recipe = plain(data, scratch / "run")
    recipe["model"] |= {"d_model": 40_000, "d_ff": 400_000}
    with pytest.raises(QkvError, match=r"the model has [\d,]+ parameters: training it takes [\d,.]+ GiB") as refused:
        Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    assert "\n" not in str(refused.value)
    assert not list((scratch / "run" / "checkpoints").iterdir())


def test_what_is_free_decides(data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = as_recipe(plain(data, scratch / "run", 1))
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(QkvError, match=r"0\.0 GiB are free"):
        Trainer(recipe, SilentTrainingReporter()).train()
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert Trainer(as_recipe(plain(data, scratch / "other", 1)), SilentTrainingReporter()).train().updates == 1
