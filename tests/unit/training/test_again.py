"""A recipe that is trained again: the same one goes on or is finished, another one is refused, nothing is lost."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.config import load_config
from qkv.core.errors import ArgumentError, UsageError
from qkv.core.temporary import old_name, unique_name
from qkv.training import trainer as trainer_module
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.recorder import Recorder, UpdateRecord
from qkv.training.run.state import TrainState
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.tiny import as_recipe, assert_same, changed, plain, write_recipe


class Listener(SilentTrainingReporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.fixture(scope="module")
def finished(data: Path, in_memory: Path) -> Path:
    run = in_memory / "trained-once"
    Trainer(as_recipe(plain(data, run)), SilentTrainingReporter()).train()
    return run


def half(data: Path, run: Path) -> None:
    """A run of 12 updates that was stopped after 8."""
    Trainer(as_recipe(plain(data, run, 8)), SilentTrainingReporter()).train()
    Path(run / "config.yaml").write_text(Path(run / "config.yaml").read_text().replace("8u", "12u"))


def content(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (run / "metrics.jsonl", *sorted((run / "best").glob("*.*")))}


def test_a_cell_that_is_run_again_has_the_same_result(data: Path, finished: Path) -> None:
    before, listener = content(finished), Listener()
    result = Trainer(as_recipe(plain(data, finished)), listener).train()
    assert (result.finished, result.updates, result.run) == (True, 12, finished)
    assert result.scores
    assert content(finished) == before
    assert f"{finished}: holds a run of this recipe; to train anew, choose another run=..." in listener.said
    assert any("the run is finished" in sentence for sentence in listener.said)


def test_a_run_that_was_stopped_goes_on(data: Path, scratch: Path, finished: Path) -> None:
    half(data, scratch / "run")
    assert Trainer(as_recipe(plain(data, scratch / "run")), SilentTrainingReporter()).train().updates == 12
    assert_same(scratch / "run", finished)


def test_auto_stands_for_the_workers_that_the_run_has(
    data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with other cores it is still the same recipe, and the run goes on with the same workers."""
    recipe = as_recipe(changed(plain(data, scratch / "run", 8), training={"workers": "auto"}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    Trainer(recipe, SilentTrainingReporter()).train()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert Trainer(recipe, SilentTrainingReporter()).train().updates == 8
    for trainer, workers in (
        (Trainer(recipe), 1),
        (Trainer.resume(recipe), 1),
        (Trainer.resume(recipe, ["training.workers=auto"]), 2),
        (Trainer.resume(recipe.run, ["training.workers=auto"]), 2),
        (Trainer(recipe.model_copy(update={"run": scratch / "other"})), 2),
    ):
        assert trainer.recipe.training.workers == workers


def test_auto_stands_for_the_precision_that_the_run_has(
    data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bf16 where the machine has it; a run that goes on elsewhere keeps its own."""
    recipe = as_recipe(changed(plain(data, scratch / "run", 8), training={"precision": "auto"}))
    for has_it, precision in ((False, "fp32"), (True, "bf16")):
        monkeypatch.setattr(trainer_module, "multiplies_in_bfloat16", lambda _, has_it=has_it: has_it)
        assert Trainer(recipe).recipe.training.precision == precision
    Trainer(recipe, SilentTrainingReporter()).train()
    monkeypatch.setattr(trainer_module, "multiplies_in_bfloat16", lambda _: False)
    assert Trainer(recipe).recipe.training.precision == "bf16"
    assert Trainer.resume(recipe.run).recipe.training.precision == "bf16"
    assert Trainer.resume(recipe.run, ["training.precision=auto"]).recipe.training.precision == "fp32"


def test_another_recipe_is_refused_by_its_keys(data: Path, finished: Path) -> None:
    before = content(finished)
    other = changed(plain(data, finished), model={"d_model": 32}, training={"stop_after": "20u"})
    with pytest.raises(UsageError) as caught:
        Trainer(as_recipe(other), SilentTrainingReporter()).train()
    assert str(caught.value) == (
        f"{finished}: already holds a run with another model.d_model, training.stop_after; choose another folder with "
        f"run=..., or resume it: qkv train --resume {finished}, in Python Trainer.resume"
    )
    assert content(finished) == before


def test_resume_takes_a_recipe(data: Path, scratch: Path, finished: Path) -> None:
    run = scratch / "run"
    Trainer(as_recipe(plain(data, run, 8)), SilentTrainingReporter()).train()
    assert Trainer.resume(as_recipe(plain(data, run, 12)), reporter=SilentTrainingReporter()).train().updates == 12
    assert_same(run, finished)
    more = Trainer.resume(as_recipe(plain(data, run, 12)), ["training.stop_after=13u"], SilentTrainingReporter())
    assert more.train().updates == 13


def test_resume_refuses_a_recipe_with_another_model(data: Path, finished: Path) -> None:
    with pytest.raises(UsageError, match=r"was started with another seed, model\.d_model; only training"):
        Trainer.resume(as_recipe(changed(plain(data, finished) | {"seed": 2}, model={"d_model": 32})))


def test_resume_of_a_recipe_that_was_never_trained(data: Path, scratch: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        Trainer.resume(as_recipe(plain(data, scratch / "run")))


@pytest.mark.parametrize("wrong", [None, "recipe.yaml", {"seed": 1}, Recipe], ids=str)
def test_a_trainer_takes_a_recipe(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="recipe: must be a Recipe, not"):
        Trainer(wrong)


@pytest.mark.parametrize("wrong", [None, 3, b"run"], ids=str)
def test_resume_takes_a_folder_or_a_recipe(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="run: must be the folder of a run"):
        Trainer.resume(wrong)


def test_overrides_are_a_list(finished: Path) -> None:
    with pytest.raises(ArgumentError, match="overrides: must be a list of texts, not one text"):
        Trainer.resume(finished, "training.stop_after=3u")


def test_the_command_understands_a_recipe_beside_resume(
    data: Path, scratch: Path, finished: Path, forks: Forks
) -> None:
    recipe = write_recipe(scratch / "recipe.yaml", plain(data, finished))
    for words in (
        [recipe],
        [recipe, "--resume"],
        ["--resume", recipe],
        ["--resume", finished, recipe],
        [recipe, "--resume", finished],
        [f"--resume={finished}"],
        ["training.keep_last=2", "--resume", finished],
        [recipe, "--resume", "training.keep_last=2"],
        [recipe, "training.keep_last=2", "--resume"],
    ):
        ended = forks.qkv("train", *words)
        assert ended.code == 0, (words, ended.stderr)
        assert f"finished after update 12; the best model is in {finished / 'best'}" in ended.stderr


def test_the_command_says_what_to_type(data: Path, scratch: Path, finished: Path, forks: Forks) -> None:
    recipe = write_recipe(scratch / "recipe.yaml", changed(plain(data, finished), model={"d_model": 32}))
    for words, sentence in (
        (["--resume"], "give one run to resume (qkv train --resume RUN) or its recipe"),
        ([recipe, "--resume"], f"{finished}: was started with another model.d_model; only training.* and validation.*"),
        ([recipe], f"{finished}: already holds a run with another model.d_model"),
        (["--resume", scratch / "a", finished], "give one run to resume"),
        (["--resume", scratch / "no.yaml"], f"{scratch / 'no.yaml'}: no such file"),
    ):
        ended = forks.qkv("train", *words)
        assert ended.code == 2
        assert ended.complaint.startswith(sentence)


def test_a_key_that_turns_out_to_be_wrong_leaves_the_saved_recipe(data: Path, scratch: Path) -> None:
    """That a model has no layers to recompute is known only when it is built."""
    recipe = plain(data, scratch / "run", 4) | {"model": {"kind": "recurrent", "d_model": 16}}
    Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    before = (scratch / "run" / "config.yaml").read_bytes()
    with pytest.raises(UsageError, match="activation_checkpointing"):
        Trainer.resume(scratch / "run", ["training.activation_checkpointing=true"], SilentTrainingReporter()).train()
    assert (scratch / "run" / "config.yaml").read_bytes() == before
    resumed = Trainer.resume(scratch / "run", ["training.stop_after=6u"], SilentTrainingReporter())
    assert resumed.train().updates == 6


def test_a_first_checkpoint_that_was_never_completed_is_no_run(data: Path, scratch: Path) -> None:
    """A process was killed while it wrote it: the same command starts anew."""
    Trainer(as_recipe(plain(data, scratch / "run", 2)), SilentTrainingReporter()).train()
    shutil.rmtree(scratch / "run" / "best")
    (checkpoint,) = (scratch / "run" / "checkpoints").iterdir()
    checkpoint.rename(unique_name(checkpoint))
    assert Trainer(as_recipe(plain(data, scratch / "run", 2)), SilentTrainingReporter()).train().updates == 2


def test_a_checkpoint_that_was_being_replaced_is_a_run(data: Path, scratch: Path) -> None:
    """A process was killed between the two renames: the old one is complete, and a new run would remove it."""
    recipe = plain(data, scratch / "run", 2)
    Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    shutil.rmtree(scratch / "run" / "best")

    def replace_first_half() -> None:
        (checkpoint,) = (scratch / "run" / "checkpoints").iterdir()
        checkpoint.rename(old_name(unique_name(checkpoint)))

    replace_first_half()
    with pytest.raises(UsageError, match="already holds a run with another seed"):
        Trainer(as_recipe(recipe | {"seed": 5}), SilentTrainingReporter()).train()
    assert Trainer(as_recipe(recipe), SilentTrainingReporter()).train().updates == 2
    replace_first_half()
    resumed = Trainer.resume(scratch / "run", ["training.stop_after=4u"], SilentTrainingReporter())
    assert resumed.train().updates == 4


def test_keys_that_a_checkpoint_was_made_with_stay(data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails in the middle: its last checkpoint was made with the changed recipe, which resumes it."""
    Trainer(as_recipe(plain(data, scratch / "run", 4)), SilentTrainingReporter()).train()
    updated = Recorder.updated

    def failing(recorder: Recorder, state: TrainState, record: UpdateRecord) -> None:
        updated(recorder, state, record)
        if state.progress.updates == 7:
            raise UsageError("something that is seen late")

    monkeypatch.setattr(Recorder, "updated", failing)
    words = ["training.stop_after=8u", "training.save_every=1u", "training.keep_last=9"]
    with pytest.raises(UsageError, match="seen late"):
        Trainer.resume(scratch / "run", words, SilentTrainingReporter()).train()
    assert load_config(Recipe, scratch / "run" / "config.yaml").training.keep_last == 9


def test_training_leaves_the_number_of_threads(data: Path, scratch: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        Trainer(as_recipe(plain(data, scratch / "run", 1)), SilentTrainingReporter()).train()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
