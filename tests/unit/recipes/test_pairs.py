"""Training on a Python list of pairs: as from a file, resumed exactly, and never on other pairs by accident."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from qkv import Trainer, recipe_for, train
from qkv.core.errors import ArgumentError, ConfigError, DataError, UsageError
from qkv.core.progress import SilentReporter
from qkv.training.recipe import Recipe
from qkv.training.setup.own_data import own_test_sets
from tests.support.tiny import as_recipe, assert_same, plain, updates_of, write_data

SMALL: dict[str, Any] = {
    "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1},
    "batch__tokens": 96,
    "training": {"stop_after": "6u", "threads": 1, "save_every": "2u"},
    "validation": {"every": "3u"},
}


class Quiet(SilentReporter):
    """Says nothing, and asks the run to stop after some updates."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after

    def update(self, info: Any) -> None:
        if info.state.progress.updates == self.stop_after:
            os.kill(os.getpid(), signal.SIGINT)


def pairs_of(name: str, folder: Path) -> list[tuple[str, str]]:
    sides = [(folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("src", "tgt")]
    return list(zip(*sides, strict=True))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data")


@pytest.fixture
def pairs(data: Path) -> list[tuple[str, str]]:
    return pairs_of("train", data)


def test_pairs_in_memory_train_as_the_same_pairs_in_files(data: Path, tmp_path: Path) -> None:
    from_files = plain(data, tmp_path / "files", 6)
    memory = {name: {"kind": "memory", "pairs": pairs_of(name, data)} for name in ("train", "dev")}
    from_memory = {**from_files, "run": str(tmp_path / "memory"), "data": memory}
    for recipe in (from_files, from_memory):
        Trainer(as_recipe(recipe), Quiet()).train()
    assert_same(tmp_path / "memory", tmp_path / "files")


def test_an_interrupted_run_continues_exactly(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    train(pairs, reporter=Quiet(), run=tmp_path / "straight", **SMALL)
    with pytest.raises(KeyboardInterrupt, match="after 3 updates; call train again"):
        train(pairs, reporter=Quiet(stop_after=3), run=tmp_path / "run", **SMALL)
    train(pairs, reporter=Quiet(), run=tmp_path / "run", **SMALL)
    assert_same(tmp_path / "run", tmp_path / "straight")


def test_a_run_resumes_without_the_pairs(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    train(pairs, reporter=Quiet(), run=tmp_path / "run", **SMALL)
    assert Trainer.resume(tmp_path / "run", ["training.stop_after=7u"], Quiet()).train().updates == 7
    assert pairs[3][0] not in (tmp_path / "run" / "config.yaml").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "run" / "data" / "train")
    with pytest.raises(DataError, match=r"give the pairs again: qkv\.train"):
        Trainer.resume(tmp_path / "run", ["training.stop_after=8u"], Quiet()).train()


def test_changed_pairs_are_refused_in_the_same_folder(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    train(pairs, reporter=Quiet(), run=tmp_path / "run", **SMALL)
    before = updates_of(tmp_path / "run")
    with pytest.raises(UsageError, match=r"holds a run with another data\.train\S*; choose another folder"):
        train([*pairs, ("new", "wen")], reporter=Quiet(), run=tmp_path / "run", **SMALL)
    assert updates_of(tmp_path / "run") == before


def test_without_a_folder_each_recipe_has_its_own(pairs: list[tuple[str, str]]) -> None:
    runs = [recipe.run for recipe in (recipe_for(pairs), recipe_for(pairs[:-1]), recipe_for(pairs, seed=2))]
    assert len(set(runs)) == 3
    assert recipe_for([(src, tgt) for src, tgt in pairs]).run == runs[0]


def test_two_workers_read_the_prepared_pairs(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    shared = {**SMALL, "training": {**SMALL["training"], "workers": 2}}
    train(pairs, pairs[:5], Quiet(), run=tmp_path / "run", **shared)
    assert len(updates_of(tmp_path / "run")) == 6


def test_the_dev_pairs_are_measured_from_the_run(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    train(pairs, dev=[("abc", "cba"), ("abc", "abc")], reporter=Quiet(), run=tmp_path / "run", **SMALL)
    assert own_test_sets(tmp_path / "run")["dev"].references == [["cba", "abc"]]


def test_overrides_set_a_key_or_a_group(pairs: list[tuple[str, str]]) -> None:
    recipe = recipe_for(pairs, model__d_model=32, model__positions="sinusoidal", text={"src": "char", "tgt": "char"})
    suggested = recipe_for(pairs)
    assert isinstance(recipe, Recipe)
    assert recipe.model == suggested.model.model_copy(update={"d_model": 32, "positions": "sinusoidal"})
    assert (suggested.text.shared is None, recipe.text.shared) == (False, None)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"model__d_modl": 3}, 'train: model.d_modl: unknown key of kind "transformer"; did you mean "d_model"'),
        ({"data": {"root": "."}}, "the pairs are the data"),
        ({"seed__x": 3}, "train: seed: must be"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_override_is_named(overrides: dict[str, Any], sentence: str, pairs: list[tuple[str, str]]) -> None:
    with pytest.raises((ConfigError, ArgumentError, UsageError), match=sentence.replace("(", r"\(")):
        recipe_for(pairs, **overrides)


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ("abc", ArgumentError, r"pairs: must be a list of pairs \(source, target\), not one text"),
        ([("a", "b", "c")] * 20, ArgumentError, r"pairs\[0\]: must be a pair \(source, target\), but has 3 items"),
        ([("a", None)] * 20, ArgumentError, r"pairs\[0\]\[1\]: must be text \(str\), not None"),
        ([("a", "b")] * 3, DataError, "there are 3, too few to learn from"),
    ],
    ids=["text", "triple", "none", "few"],
)
def test_what_is_no_list_of_pairs_is_refused(given: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        recipe_for(given)
