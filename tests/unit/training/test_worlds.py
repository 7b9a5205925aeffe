"""Whatever the number of processes, sharded or not: the run of one process, and the same batches in the same order."""

import signal
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in its list of names

from qkv.core.errors import TeamBroken
from qkv.training.run.folder import read_metrics
from qkv.training.team import Team
from tests.support.forks import Forks
from tests.support.ranks import run_ranks, start_ranks, train_with
from tests.support.tiny import changed, leftovers, lines_of, plain, validations_of, write_recipe

UPDATES = 12
DRAWS = 36
MEETING_POINT = """
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(600)
"""
WORLDS = [(2, "none"), (4, "none"), (4, "full")]
"""Two that shard: test_sharded_runs.py."""


def recipe_of(data: Path, run: Path) -> dict[str, Any]:
    """Without dropout. The last batch of an epoch has fewer rows than there are ranks."""
    return changed(plain(data, run, UPDATES), model={"dropout": 0.0}, training={"accumulate": 2})


def dropping(data: Path, run: Path) -> dict[str, Any]:
    """Steps so small that only the draws of dropout change from epoch to epoch."""
    recipe = changed(recipe_of(data, run), model={"dropout": 0.3}, schedule={"peak": 1e-9})
    recipe["validation"] = {"every": f"{DRAWS}u", "samples": 0}
    return changed(recipe, training={"accumulate": 1, "stop_after": f"{DRAWS}u", "save_every": f"{DRAWS}u"})


def updates(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if "batch" in line]


def numbers(run: Path) -> list[float]:
    """Losses, norms of gradients and the scores of validations."""
    lines = updates(run)
    scores = [line["loss"] for line in validations_of(run)]
    return [*(line["loss"] for line in lines), *(line["grad_norm"] for line in lines), *scores]


def marks(run: Path) -> list[str]:
    return [line["batch"] for line in updates(run)]


@pytest.fixture(scope="module")
def alone(data: Path, in_memory: Path, forks: Forks) -> Path:
    """The run of one process."""
    run = in_memory / "one process"
    assert forks.qkv("train", write_recipe(in_memory / "one process.yaml", recipe_of(data, run))).code == 0
    return run


@pytest.fixture(scope="module")
def alone_dropping(data: Path, in_memory: Path, forks: Forks) -> Path:
    run = in_memory / "one process that drops"
    assert forks.qkv("train", write_recipe(in_memory / "drops.yaml", dropping(data, run))).code == 0
    return run


@pytest.mark.parametrize(("world", "sharding"), WORLDS)
def test_processes_equal_one(data: Path, scratch: Path, forks: Forks, alone: Path, world: int, sharding: str) -> None:
    run = scratch / "run"
    recipe = changed(recipe_of(data, run), training={"sharding": sharding})
    train_with(forks, world, write_recipe(scratch / "recipe.yaml", recipe))
    assert numbers(run) == pytest.approx(numbers(alone), abs=1e-5)
    assert marks(run) == marks(alone)
    assert len(set(marks(run))) == UPDATES, "an update has its own batch"
    assert leftovers(run) == []


@pytest.mark.parametrize(("world", "sharding"), [*WORLDS, (2, "full")])
def test_with_dropout_processes_equal_one_on_average(
    data: Path, scratch: Path, forks: Forks, alone_dropping: Path, world: int, sharding: str
) -> None:
    """The loss of each update is a draw; the mean difference of 36 pairs is zero within 4.5 standard errors."""
    run = scratch / "run"
    recipe = changed(dropping(data, run), training={"sharding": sharding})
    train_with(forks, world, write_recipe(scratch / "recipe.yaml", recipe))
    assert marks(run) == marks(alone_dropping)
    for key in ("loss", "grad_norm"):
        ours, theirs = ([line[key] for line in updates(path)] for path in (run, alone_dropping))
        differences = [one - other for one, other in zip(ours, theirs, strict=True)]
        assert len(set(differences)) > DRAWS / 2, "each number of processes draws for itself"
        error = statistics.stdev(differences) / DRAWS**0.5
        assert abs(statistics.mean(differences)) < 4.5 * error, key


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_the_world_grows_and_shrinks(data: Path, scratch: Path, forks: Forks, alone: Path, sharding: str) -> None:
    """One process, then two, four and three, each from the checkpoint of the one before: the run of one process."""
    run = scratch / "run"
    recipe = changed(recipe_of(data, run), training={"sharding": sharding, "stop_after": "3u"})
    train_with(forks, 1, write_recipe(scratch / "recipe.yaml", recipe))
    for world, end in ((2, 6), (4, 9), (3, 12)):
        run_ranks(forks, world, "train", "--resume", run, f"training.stop_after={end}u")
    assert [line["loss"] for line in updates(run)] == pytest.approx([line["loss"] for line in updates(alone)], abs=1e-5)
    assert marks(run) == marks(alone)
    assert leftovers(run) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharding", "fate"), [("none", signal.SIGSTOP), ("full", signal.SIGSTOP), ("full", signal.SIGKILL)]
)
def test_the_others_end_when_a_rank_is_gone(data: Path, scratch: Path, forks: Forks, sharding: str, fate: int) -> None:
    """One that is stopped closes no connection, like a machine that is lost (benchmarks/lost_node.py)."""
    run = scratch / "run"
    recipe = changed(recipe_of(data, run), training={"sharding": sharding, "timeout": 15, "stop_after": "100000u"})
    first, second = start_ranks(forks, 2, "train", write_recipe(scratch / "recipe.yaml", recipe))
    first.until(lambda: lines_of(run) >= 6, timeout=180)
    second.send(fate)
    ended = first.wait(180)
    if fate == signal.SIGSTOP:
        second.send(signal.SIGCONT)
    assert ended.code == 1
    assert "a worker process ended unexpectedly or cannot be reached" in ended.complaint
    assert second.wait(180).code == (1 if fate == signal.SIGSTOP else -signal.SIGKILL)
    run_ranks(forks, 2, "train", "--resume", run, "training.stop_after=12u")
    assert leftovers(run) == []


def test_a_rank_that_waits_notices_that_the_meeting_point_is_gone() -> None:
    """Rank 0 prepares the data; meanwhile the others ask the store whether it is done."""
    with subprocess.Popen([sys.executable, "-c", MEETING_POINT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        store = TCPStore("127.0.0.1", int(process.stdout.readline()), is_master=False)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(Team(1, 2, store).wait_for, "prepared")
            process.kill()
            with pytest.raises(TeamBroken, match="cannot be reached"):
                waiting.result(60)
