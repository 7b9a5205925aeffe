"""A model that cannot be trained in the memory that is free is refused before anything of it is allocated."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import QkvError
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import TrainingConfig
from qkv.training.setup import memory
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, changed, plain


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


def test_what_is_sharded_is_held_once() -> None:
    whole, sharded = TrainingConfig(), TrainingConfig(sharding="full")
    assert memory.copies_held(whole, here=4, world=4) == 4 * memory.NUMBERS
    # All ranks hold one copy together; each builds the model first, and rank 0 keeps one to put it together.
    assert memory.copies_held(sharded, here=4, world=4) == 1 + memory.NUMBERS
    assert memory.copies_held(sharded, here=2, world=64) == 3
    assert memory.copies_held(sharded, here=1, world=1) == memory.NUMBERS
    assert memory.copies_held(TrainingConfig(ema=0.9), here=1, world=1) == memory.NUMBERS + 1


def test_the_optimiser_of_another_device_takes_no_memory_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "choose_device", lambda name: torch.device("meta"))
    assert memory.copies_held(TrainingConfig(), here=2, world=2) == 2
    assert memory.copies_held(TrainingConfig(sharding="full"), here=2, world=2) == 3


@pytest.mark.parametrize(
    ("settings", "ending"),
    [
        ({"workers": 1}, "number of layers"),
        ({"workers": 2}, "number of layers, or fewer training.workers, or training.sharding full"),
        ({"workers": 2, "sharding": "full"}, "number of layers, or fewer training.workers"),
    ],
)
def test_it_names_what_would_help(
    data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], ending: str
) -> None:
    recipe = as_recipe(changed(plain(data, scratch / "run", 1), training=settings))
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(QkvError) as refused:
        Trainer(recipe, SilentTrainingReporter()).train()
    assert str(refused.value).endswith(ending)
