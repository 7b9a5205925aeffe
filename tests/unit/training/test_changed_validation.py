"""A run that goes on with another score that decides: scores of different kinds are never compared."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qkv.core.files import new_folder, read_manifest, verify_folder
from qkv.models.saved.folder import load_model
from qkv.training.run.checkpoint import STATE, list_checkpoints, read_state
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, changed, plain, updates_of, validations_of


class Listener:
    """A reporter that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def counting(self, what: str) -> Any:
        return lambda done, total: None

    def update(self, info: object) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def trained(in_memory: Path, data: Path) -> Path:
    """Eight updates, validated every two; the loss decides."""
    run = in_memory / "changed"
    recipe = changed(plain(data, run, 8), training={"save_every": "2u", "keep_last": 1}, validation={"every": "2u"})
    Trainer(as_recipe(recipe), Listener()).train()
    return run


@pytest.fixture
def run(trained: Path, scratch: Path) -> Path:
    return Path(shutil.copytree(trained, scratch / "run"))


def resume(run: Path, *changes: str, updates: int = 12) -> list[str]:
    """Go on to `updates`; what was said."""
    listener = Listener()
    Trainer.resume(run, [f"training.stop_after={updates}u", *changes], listener).train()
    return listener.said


def newest(run: Path) -> Any:
    return read_state(list_checkpoints(run / "checkpoints")[-1])


CHRF = ("validation.metrics=[chrf]", "validation.best=chrf")


def test_the_best_model_is_scored_again(run: Path) -> None:
    before = newest(run)
    assert (before.scored_by["best"], before.best_update) == ("loss", 8)
    said = resume(run, *CHRF, "validation.patience=99")
    (told,) = [sentence for sentence in said if "best/ was chosen by loss" in sentence]
    after = newest(run)
    assert after.scored_by["best"] == "chrf"
    scores = [line["chrf"] for line in validations_of(run) if "chrf" in line]
    of_before = float(told.split("its chrf is ")[1].split(",")[0])
    assert after.best_score == pytest.approx(max([of_before, *scores]), rel=1e-3)
    assert dict(read_manifest(run / "best"))["update"] == after.best_update
    improved = [line["best"] for line in validations_of(run) if "chrf" in line]
    assert improved == [score > max([of_before, *scores[:place]]) + 1e-3 for place, score in enumerate(scores)]
    # Said once: from now on scores are of one kind.
    assert not any("was chosen by" in sentence for sentence in resume(run, updates=14))


def test_the_score_of_a_changed_search_is_another_score(run: Path) -> None:
    resume(run, *CHRF)
    said = resume(run, "validation.max_sources=3", updates=14)
    assert any("best/ was chosen by chrf with other settings" in sentence for sentence in said)


def test_a_run_that_was_out_of_patience_goes_on(run: Path, data: Path) -> None:
    """The validations without a better loss do not count for another score."""
    state = newest(run)
    state.without_improvement, state.finished = 3, True
    with new_folder(run / "checkpoints" / "step-00000008", {"what": "checkpoint"}) as folder:
        for name in ("model.safetensors", "optimizer.safetensors"):
            shutil.copyfile(run / "checkpoints" / "step-00000008" / name, folder / name)
        (folder / STATE).write_text(json.dumps(state.as_dict()))
    again = Path(shutil.copytree(run, run.with_name("again")))
    resume(again, "validation.patience=3")
    assert len(updates_of(again)) == 8
    resume(run, "validation.patience=3", *CHRF)
    assert len(updates_of(run)) > 8


def test_a_state_of_an_earlier_version_does_not_say_how_it_was_scored(run: Path, trained: Path) -> None:
    """It is scored again, which changes nothing where the score is the same."""
    folder = run / "checkpoints" / "step-00000008"
    state = json.loads((folder / STATE).read_text())
    for key in ("scored_by", "best_update", "metrics_crc32"):
        del state[key]
    with new_folder(folder, {"what": "checkpoint", "score": 1.0}) as temporary:
        for name in ("model.safetensors", "optimizer.safetensors"):
            shutil.copyfile(folder / name, temporary / name)
        (temporary / STATE).write_text(json.dumps(state))
    straight = Path(shutil.copytree(trained, run.with_name("straight")))
    other = Path(shutil.copytree(run, run.with_name("other")))
    assert not any("was chosen by" in sentence for sentence in resume(run))
    resume(straight)
    assert validations_of(run) == validations_of(straight)
    assert any("best/ was chosen by another score" in sentence for sentence in resume(other, *CHRF))


@pytest.mark.parametrize("damage", ["gone", "changed", "without a manifest"])
def test_a_best_model_that_is_lost_is_told_and_replaced(damage: str, run: Path) -> None:
    if damage == "gone":
        shutil.rmtree(run / "best")
    elif damage == "changed":
        (run / "best" / "config.yaml").write_text("{}")
    else:
        (run / "best" / "manifest.json").unlink()
    said = resume(run, updates=10)
    (told,) = [sentence for sentence in said if "the next validated model becomes the best one" in sentence]
    assert str(run / "best") in told
    assert (run / "damaged-best").is_dir() == (damage != "gone")
    assert dict(verify_folder(run / "best"))["update"] == 10
    load_model(run / "best")


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed"])
def test_lost_numbers_are_told(damage: str, run: Path) -> None:
    path = run / "metrics.jsonl"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "shorter":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(whole.replace(b'"loss": ', b'"lost": '))
    said = resume(run, updates=10)
    assert any(str(path) in sentence and "continues" in sentence for sentence in said)
    lines = read_metrics(path)
    assert [line["update"] for line in lines if "update" in line][-2:] == [9, 10]
    assert not any(str(path) in sentence for sentence in resume(run, updates=12))


def test_nothing_is_said_where_nothing_is_lost(run: Path) -> None:
    assert [sentence for sentence in resume(run) if "best/" in sentence or "metrics" in sentence] == []
