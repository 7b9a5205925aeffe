"""Two processes that share every batch: the same run, and an end with a sentence when one of them is gone."""

import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.distributed import FileStore, HashStore  # type: ignore[attr-defined]  # public, but not in its list of names

from qkv.core.errors import QkvError, UsageError
from qkv.core.temporary import unique_name
from qkv.kernels.threads import bounded_workers, cores
from qkv.training import distributed
from qkv.training.run.folder import read_metrics
from tests.support.forks import Child, Forks
from tests.support.tiny import (
    assert_same,
    changed,
    everything,
    lines_of,
    plain,
    updates_of,
    validations_of,
    write_recipe,
)

TWO = {"workers": 2}


def workers_of(child: Child) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(child.pid)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.slow
def test_stopped_and_killed_runs_go_on_exactly(data: Path, scratch: Path, forks: Forks) -> None:
    """One run with two workers is stopped by SIGTERM, then its leader is killed, then its other worker."""
    recipe = changed(everything(data, scratch / "straight", 24), training={**TWO, "save_every": "2u"})
    straight = forks.start_qkv("train", write_recipe(scratch / "straight.yaml", recipe))
    run = scratch / "run"
    child = forks.start_qkv("train", write_recipe(scratch / "recipe.yaml", {**recipe, "run": str(run)}))
    child.until(lambda: lines_of(run) >= 4)
    child.send(signal.SIGTERM)
    assert child.wait(10).code == 143

    child = forks.start_qkv("train", "--resume", run)
    before = lines_of(run)
    child.until(lambda: lines_of(run) >= before + 3)
    (worker,) = workers_of(child)
    child.send(signal.SIGKILL)
    child.wait()
    end = time.monotonic() + 10
    while not gone(worker):
        assert time.monotonic() < end, "the worker outlived its leader"
        time.sleep(0.05)

    child = forks.start_qkv("train", "--resume", run)
    before = lines_of(run)
    child.until(lambda: lines_of(run) >= before + 2)
    (worker,) = workers_of(child)
    killed = time.monotonic()
    subprocess.run(["kill", "-9", str(worker)], check=True)
    ended = child.wait(30)
    assert time.monotonic() - killed < 30
    assert ended.code == 1
    assert "a worker process ended unexpectedly" in ended.complaint

    assert forks.qkv("train", "--resume", run).code == 0
    assert straight.wait().code == 0
    assert_same(run, scratch / "straight")


@pytest.mark.slow
def test_the_number_of_workers_changes_only_roundings(data: Path, scratch: Path, forks: Forks) -> None:
    """The same pairs in the same order, and over 60 updates losses within 5e-3."""
    losses, sizes, scores = {}, {}, {}
    recipe = changed(plain(data, scratch / "run", 60), model={"dropout": 0.0}, training={"save_every": "60u"})
    recipe["validation"]["every"] = "60u"
    for workers in (1, 2):
        run = scratch / str(workers)
        own = changed({**recipe, "run": str(run)}, training={"workers": workers})
        ended = forks.qkv("train", write_recipe(scratch / f"{workers}.yaml", own))
        assert ended.code == 0, ended.stderr
        losses[workers] = [float.fromhex(loss) for _, loss, *_ in updates_of(run)]
        sizes[workers] = [(line.get("tgt_tokens"), line.get("batch")) for line in read_metrics(run / "metrics.jsonl")]
        scores[workers] = [line["loss"] for line in validations_of(run)]
    assert len(losses[1]) == 60
    assert losses[1][-1] < losses[1][0] - 0.3
    assert max(abs(a - b) for a, b in zip(losses[1], losses[2], strict=True)) < 5e-3
    assert losses[1] != losses[2], "the second worker did nothing"
    assert sizes[1] == sizes[2]
    assert len(set(sizes[1])) > 60, "an update has its own batch"
    assert scores[1] == pytest.approx(scores[2], abs=5e-3)


def test_a_worker_that_never_starts(data: Path, scratch: Path, forks: Forks) -> None:
    recipe = changed(plain(data, scratch / "run"), training=TWO)
    ended = forks.call("tests.support.faults:worker_that_cannot_start", recipe, timeout=30)
    assert ended.code == 1
    assert "a worker process ended before it could begin" in ended.complaint


def test_more_workers_than_cores_are_refused(data: Path, scratch: Path, forks: Forks) -> None:
    """Before anything is made; whoever wants them all the same is told how."""
    recipe = changed(plain(data, scratch / "run", 4), training={"workers": 1000})
    ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", recipe))
    assert ended.code == 2
    assert ended.complaint.startswith("training.workers=1,000: this process may use ")
    assert "or set QKV_MAX_WORKERS=1000 to start so many all the same" in ended.complaint
    assert not (scratch / "run").exists()


def test_the_number_of_workers_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_MAX_WORKERS", str(cores() + 5))
    assert bounded_workers(cores() + 5, "workers") == cores() + 5
    assert bounded_workers("auto", "workers") == cores()
    with pytest.raises(UsageError, match=f"give at most {cores() + 5}, or set QKV_MAX_WORKERS"):
        bounded_workers(cores() + 6, "workers")
    monkeypatch.setenv("QKV_MAX_WORKERS", "1")
    assert bounded_workers(cores(), "workers") == cores()
    monkeypatch.setenv("QKV_MAX_WORKERS", "many")
    with pytest.raises(UsageError, match="QKV_MAX_WORKERS=many: must be a whole number"):
        bounded_workers(1, "workers")


SLOW_START = """
import subprocess, sys, time
from qkv.core.child import child_command
subprocess.Popen(child_command("tests.support.idle"), start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


def test_a_child_that_does_not_look_ends_with_its_parent(tmp_path: Path) -> None:
    """Also one that is killed at once, when the child has not yet come to watch."""
    for delay in (0.0, 0.02, 0.1, 0.5):
        parent = subprocess.Popen([sys.executable, "-c", SLOW_START], stdout=subprocess.PIPE)
        assert parent.stdout
        assert parent.stdout.readline() == b"started\n"
        time.sleep(delay)
        children = [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
        assert children
        parent.kill()
        parent.communicate()
        end = time.monotonic() + 10
        while not all(gone(child) for child in children):
            assert time.monotonic() < end, "the child outlived its parent"
            time.sleep(0.02)


def test_the_meeting_place_of_a_killed_leader_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = unique_name(tmp_path / "qkv-team")
    left.mkdir()
    (left / "rendezvous").write_text("half")
    (tmp_path / "qkv-team").mkdir()
    monkeypatch.setattr(distributed, "child_command", lambda *_: ["false"])
    with (
        pytest.raises(QkvError, match="ended before it could begin"),
        distributed.local_team(tmp_path, None, 2, "cpu", 60),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["qkv-team"], "a folder of that name is somebody else's"


def test_a_worker_without_a_device_is_not_waited_for(tmp_path: Path) -> None:
    address = str(tmp_path / "rendezvous")
    with pytest.raises(QkvError), distributed.join_as_worker(address, 1, 2, "cuda:77", 60):
        pass
    assert not FileStore(address, 1).check(["started/1"])


def test_a_second_start_does_not_meet_the_addresses_of_the_first() -> None:
    """torchrun's store outlives the processes: the first start left questions, answers and addresses in it."""
    store = HashStore()
    store.set("qkv/ask/1", "dead")
    store.set("qkv/answer/dead", "old")
    store.add("qkv/asked", 2)  # the second one died before it had asked
    store.set("old/address", "nobody listens here")
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda rank: distributed.part_of_this_start(store, rank, 3), (2, 0, 1)))
    parts[0].set("address", "here")
    assert [part.get("address") for part in parts] == [b"here"] * 3
