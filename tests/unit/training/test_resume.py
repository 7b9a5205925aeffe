"""A run that was stopped and went on is the run that was never stopped, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from qkv.training.run.checkpoint import list_checkpoints, read_state
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.tiny import (
    as_recipe,
    assert_same,
    changed,
    everything,
    final_hashes,
    lines_of,
    more_lines,
    plain,
    updates_of,
    validations_of,
    write_recipe,
)

UPDATES = 14
KILLS = 6


@pytest.fixture(scope="module")
def straight(in_memory: Path, data: Path, forks: Forks) -> Path:
    """The run that nobody stops."""
    recipe = write_recipe(in_memory / "straight.yaml", everything(data, in_memory / "straight", UPDATES))
    ended = forks.qkv("train", recipe)
    assert ended.code == 0, ended.stderr
    assert [update for update, *_ in updates_of(in_memory / "straight")] == list(range(1, UPDATES + 1))
    return in_memory / "straight"


def test_same_seed_same_run_in_this_process(straight: Path, data: Path, scratch: Path) -> None:
    """Also with the shape checks of the tests on."""
    result = Trainer(as_recipe(everything(data, scratch / "run", UPDATES))).train()
    assert result.finished
    assert result.updates == UPDATES
    assert_same(scratch / "run", straight)


def test_another_seed_another_run(straight: Path, data: Path, scratch: Path) -> None:
    Trainer(as_recipe({**everything(data, scratch / "run", 3), "seed": 2})).train()
    pairs = list(zip(updates_of(scratch / "run"), updates_of(straight), strict=False))
    assert len(pairs) == 3
    assert all(ours[1:] != theirs[1:] for ours, theirs in pairs)


def test_the_surroundings_do_not_matter(straight: Path, data: Path, scratch: Path) -> None:
    """Another hash seed, locale and time zone."""
    recipe = write_recipe(scratch / "recipe.yaml", everything(data, scratch / "run", UPDATES))
    surroundings = {"PYTHONHASHSEED": "4321", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    environment = {**os.environ, **surroundings, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from qkv.cli import main; main()", "train", str(recipe)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert_same(scratch / "run", straight)


@pytest.mark.parametrize("after", [2, 7, 9])
def test_stopped_in_process_by_a_signal(after: int, straight: Path, data: Path, scratch: Path) -> None:
    """Update 2 lies before the first checkpoint, 7 in the middle of an epoch, 9 between a save and a validation."""

    class StopAfter:
        def say(self, sentence: str) -> None: ...
        def counting(self, what: str) -> Any:
            return lambda done, total: None

        def update(self, info: Any) -> None:
            if info.state.progress.updates == after:
                os.kill(os.getpid(), signal.SIGTERM)

        def close(self) -> None: ...

    before = signal.getsignal(signal.SIGTERM)
    stopped = Trainer(as_recipe(everything(data, scratch / "run", UPDATES)), StopAfter()).train()
    assert (stopped.finished, stopped.exit_code, stopped.updates) == (False, 143, after)
    assert signal.getsignal(signal.SIGTERM) == before
    assert Trainer.resume(scratch / "run").train().finished
    assert_same(scratch / "run", straight)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_the_command(
    number: int, code: int, straight: Path, data: Path, scratch: Path, forks: Forks
) -> None:
    recipe = write_recipe(scratch / "recipe.yaml", everything(data, scratch / "run", UPDATES))
    child = forks.start_qkv("train", recipe)
    child.until(lambda: lines_of(scratch / "run") >= 5)
    sent = time.monotonic()
    child.send(number)
    ended = child.wait()
    assert time.monotonic() - sent < 10
    assert ended.code == code, ended.stderr
    assert f"qkv train --resume {scratch / 'run'}" in ended.stderr
    done = updates_of(scratch / "run")[-1][0]
    assert 4 <= done < UPDATES
    assert (scratch / "run" / "checkpoints" / f"step-{done:08d}" / "manifest.json").is_file()
    assert forks.qkv("train", "--resume", scratch / "run").code == 0
    assert_same(scratch / "run", straight)


def test_signal_during_validation(data: Path, scratch: Path, forks: Forks) -> None:
    """The validation is given up, the checkpoint written; the resumed run validates there and keeps the score."""
    recipe = write_recipe(scratch / "recipe.yaml", plain(data, scratch / "run", 8))
    stopped = forks.start("tests.support.faults:slow_validation", str(recipe), str(scratch / "validating"))
    stopped.until((scratch / "validating").exists)
    sent = time.monotonic()
    stopped.send(signal.SIGTERM)
    ended = stopped.wait()
    assert ended.code == 143, ended.stderr
    assert time.monotonic() - sent < 10
    assert (updates_of(scratch / "run")[-1][0], validations_of(scratch / "run")) == (4, [])
    assert (scratch / "run" / "checkpoints" / "step-00000004").is_dir()
    assert forks.qkv("train", "--resume", scratch / "run").code == 0
    forks.qkv("train", write_recipe(scratch / "straight.yaml", plain(data, scratch / "straight", 8)))
    assert_same(scratch / "run", scratch / "straight")
    state = read_state(scratch / "run" / "checkpoints" / "step-00000004")
    assert state.validated.updates == 4
    assert state.last_scores["loss"] > 0


def test_a_second_signal_does_not_wait(data: Path, scratch: Path, forks: Forks) -> None:
    """Nothing is written any more, and what was written before is good."""
    run = scratch / "run"
    recipe = changed(plain(data, run, 8), training={"save_every": "2u"})
    path = write_recipe(scratch / "recipe.yaml", recipe)
    child = forks.start("tests.support.faults:slow_validation", str(path), str(scratch / "validating"))
    child.until((scratch / "validating").exists)
    child.send(signal.SIGINT)
    time.sleep(0.1)
    child.send(signal.SIGINT)
    ended = child.wait(5)
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
    assert [folder.name for folder in list_checkpoints(run / "checkpoints")] == ["step-00000002"]
    assert forks.qkv("train", "--resume", run).code == 0


def test_kill_at_random_moments(data: Path, scratch: Path, forks: Forks) -> None:
    """kill -9 again and again over one run that saves after every update, so that many moments lie in a save."""
    seed = random.randrange(2**32)
    moments, run = random.Random(seed), scratch / "run"
    straight = changed(everything(data, scratch / "straight", 40), training={"save_every": "1u"})
    assert forks.qkv("train", write_recipe(scratch / "straight.yaml", straight)).code == 0
    child = forks.start_qkv("train", write_recipe(scratch / "recipe.yaml", {**straight, "run": str(run)}))
    for _ in range(KILLS):
        child.until(more_lines(run))
        time.sleep(moments.uniform(0, 0.05))
        child.send(signal.SIGKILL)
        assert child.wait().code == -signal.SIGKILL, seed
        child = forks.start_qkv("train", "--resume", run)
    ended = child.wait()
    assert ended.code == 0, (seed, ended.stderr)
    assert_same(run, scratch / "straight")


def test_finished_run_goes_on_when_asked(straight: Path, data: Path, scratch: Path, forks: Forks) -> None:
    """Stopping at update 8 and raising stop_after gives the longer run, since its schedule does not know the end."""
    run = scratch / "run"
    forks.qkv("train", write_recipe(scratch / "recipe.yaml", everything(data, run, 8)))
    again = forks.qkv("train", "--resume", run)
    assert again.code == 0
    assert "the run is finished" in again.stderr
    assert len(updates_of(run)) == 8
    longer = forks.qkv("train", "--resume", run, f"training.stop_after={UPDATES}u")
    assert longer.code == 0
    assert "the run is finished" not in longer.stderr
    assert updates_of(run) == updates_of(straight)
    weights = f"checkpoints/step-{UPDATES:08d}/model.safetensors"
    assert final_hashes(run)[weights] == final_hashes(straight)[weights]


def test_metrics_have_no_torn_line(straight: Path) -> None:
    assert (straight / "metrics.jsonl").read_bytes().endswith(b"}\n")
    assert len(read_metrics(straight / "metrics.jsonl")) == lines_of(straight)
