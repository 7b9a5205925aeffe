"""The run folder: its lock, its log, its events, and which folder may be used for what."""

import errno
import fcntl
import json
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from qkv.core.errors import QkvError, UsageError
from qkv.core.files import set_aside
from qkv.models.saved.folder import load_model
from qkv.training.events import EventLog
from qkv.training.progress import SilentTrainingReporter
from qkv.training.run.folder import MetricsLog, RunFolder, read_metrics
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.tiny import as_recipe, changed, leftovers, plain, updates_of, write_pairs, write_recipe


@pytest.fixture(scope="module")
def finished(in_memory: Path, data: Path, forks: Forks) -> Path:
    """A short run that is done."""
    recipe = write_recipe(in_memory / "finished.yaml", plain(data, in_memory / "finished", 10))
    assert forks.qkv("train", recipe).code == 0
    return in_memory / "finished"


def test_everything_is_there(finished: Path) -> None:
    there = {path.name for path in finished.iterdir()}
    wanted = {
        "config.yaml",
        "tokenizer",
        "data",
        "checkpoints",
        "best",
        "metrics.jsonl",
        "events",
        "samples",
        "attention",
    }
    assert there == {*wanted, "run.lock", "qkv.json"}
    assert leftovers(finished) == []
    assert sorted(path.name for path in (finished / "samples").iterdir()) == [
        "update-00000004.txt",
        "update-00000008.txt",
        "update-00000010.txt",
    ]
    assert (finished / "samples" / "update-00000004.txt").read_text().startswith("src  ")
    for path in finished.rglob("*"):
        assert path.stat().st_mode & 0o022 == 0, f"{path} can be changed by others"
        assert path.is_dir() or path.stat().st_mode & 0o044, f"{path} cannot be read by others"


def test_the_saved_recipe_runs_again(finished: Path, scratch: Path, forks: Forks) -> None:
    assert forks.qkv("train", finished / "config.yaml", f"run={scratch / 'again'}").code == 0
    assert updates_of(scratch / "again") == updates_of(finished)


def test_metrics_say_what_happened(finished: Path) -> None:
    lines = read_metrics(finished / "metrics.jsonl")
    assert [line.get("update", "validation") for line in lines] == [
        *(1, 2, 3, 4, "validation", 5, 6, 7, 8, "validation", 9, 10, "validation")
    ]
    assert all(line["lr"] == 3e-3 for line in lines if "lr" in line)
    assert lines[0].keys() == {
        *("update", "epoch", "loss", "nll", "grad_norm", "lr", "tokens_per_second", "tgt_tokens", "batch", "seconds")
    }
    assert lines[4].keys() == {"validation", "loss", "perplexity", "best", "cut"}


def test_events_are_what_tensorboard_reads(finished: Path) -> None:
    events = [event for path in sorted((finished / "events").iterdir()) for event in read_events(path)]
    assert events[0].file_version == "brain.Event:2"
    assert events[1].step == 1
    points = {(value.tag, event.step): value.simple_value for event in events[2:] for value in event.summary.value}
    lines = read_metrics(finished / "metrics.jsonl")
    assert points["train/loss", 10] == pytest.approx(lines[-2]["loss"])
    assert points["dev/perplexity", 8] == pytest.approx(lines[9]["perplexity"])
    assert {step for _, step in points} == {4, 8, 10}


def read_events(path: Path) -> list[Any]:
    content, events = path.read_bytes(), []
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        message, rest = content[12 : 12 + size], content[12 + size :]
        assert struct.unpack("<I", content[8:12]) == (masked_crc32c(content[:8]),)
        assert struct.unpack("<I", rest[:4]) == (masked_crc32c(message),)
        events.append(Event.FromString(message))
        content = rest[4:]
    return events


def test_two_event_logs_of_one_second(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed and resumed at once keeps both."""
    monkeypatch.setattr(time, "time", lambda: 1e9)
    EventLog(scratch / "events", 0).close()
    monkeypatch.setattr(os, "getpid", lambda: 4)
    EventLog(scratch / "events", 7).close()
    assert {read_events(path)[1].step for path in (scratch / "events").iterdir()} == {1, 8}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def no_waiting(seconds: float) -> None:
    raise AssertionError("a run that is in use must be refused at once")


def test_second_process_is_refused(finished: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, by whom, and without touching anything; the lock of a dead process does not count."""
    run = RunFolder(scratch / "run")
    run.create()
    (run.path / "run.lock").write_text("99999999\n")
    run.config.write_text((finished / "config.yaml").read_text())
    with run.locked():
        monkeypatch.setattr(time, "sleep", no_waiting)
        before = contents(run.path)
        with pytest.raises(UsageError, match=f"is being trained by process {os.getpid()}; wait for it"):
            Trainer.resume(run.path, reporter=SilentTrainingReporter()).train()
        assert contents(run.path) == before
    with run.locked():
        pass


def test_a_file_system_without_locks_does_not_stop_a_run(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else trains there, as far as anybody can tell; what went wrong is said."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.warns(UserWarning, match=r"cannot be locked \(No locks available\)"), RunFolder(scratch).locked():
        assert (scratch / "run.lock").read_text() == f"{os.getpid()}\n"


def test_second_command_is_refused(data: Path, scratch: Path, forks: Forks) -> None:
    run = scratch / "run"
    recipe = write_recipe(scratch / "recipe.yaml", plain(data, run, 100000))
    first = forks.start_qkv("train", recipe)
    first.until(lambda: (run / "checkpoints" / "step-00000004").is_dir())
    for arguments in ([recipe], ["--resume", run]):
        second = forks.qkv("train", *arguments)
        assert second.code == 2
        assert second.complaint.startswith(f"{run}: ")
    assert f"is being trained by process {first.pid}" in second.complaint
    first.send(9)
    first.wait()


def test_resume_of_what_is_no_run(scratch: Path, forks: Forks) -> None:
    for folder in (scratch, scratch / "nowhere"):
        ended = forks.qkv("train", "--resume", folder)
        assert ended.code == 2
        assert f"{folder}: holds no run" in ended.complaint
    assert not (scratch / "nowhere").exists()


def test_resume_may_change_only_the_loop(finished: Path, forks: Forks) -> None:
    for change in ("model.d_model=32", "data.root=.", "seed=2", "batch.tokens=50"):
        ended = forks.qkv("train", "--resume", finished, change)
        assert ended.code == 2
        assert ended.complaint == f"{change}: only training.* and validation.* can change when resuming"
    ended = forks.qkv("train", "--resume", finished, "training.ema=0.9")
    assert ended.code == 2
    assert "was trained without training.ema" in ended.complaint
    assert forks.qkv("train", "--resume", finished).code == 0, "the refused change was kept"


def test_an_earlier_start_without_a_checkpoint_leaves_nothing(data: Path, scratch: Path) -> None:
    """Other data, other tokenizers: nothing of the first try may be used."""
    recipe = plain(data, scratch / "run", 2)
    run = RunFolder(scratch / "run")
    Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    for folder in run.checkpoints.iterdir():
        folder.rename(scratch / folder.name)
    # A model is never overwritten, even if its checkpoints are gone.
    with pytest.raises(UsageError, match="already holds a model"):
        Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    run.best.rename(scratch / "best")
    write_pairs(scratch, "other", 30, 5)
    (scratch / "other.src").write_text((scratch / "other.src").read_text().upper())
    corpus = {"kind": "text", "src": str(scratch / "other.src"), "tgt": str(scratch / "other.tgt")}
    Trainer(as_recipe(changed(recipe, data={"train": corpus})), SilentTrainingReporter()).train()
    tokenizers = load_model(run.best).tokenizers
    assert tokenizers.src.special.unk not in tokenizers.src.encode("ABC")
    assert len(updates_of(run.path)) == 2


def test_changed_data_is_noticed(finished: Path, data: Path, scratch: Path, forks: Forks) -> None:
    """The prepared data is gone and the original is no longer the same."""
    own = scratch / "data"
    own.mkdir()
    for path in data.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    Trainer(as_recipe(plain(own, scratch / "run", 2)), SilentTrainingReporter()).train()
    for path in (scratch / "run" / "data" / "train").iterdir():
        path.unlink()
    write_pairs(own, "train", 60, 9)
    ended = forks.qkv("train", "--resume", scratch / "run", "training.stop_after=4u")
    assert ended.code == 1
    assert "the training data or the tokenizers changed since the run began" in ended.complaint


def test_without_dev_data_the_last_model_is_kept(data: Path, scratch: Path, forks: Forks) -> None:
    recipe = plain(data, scratch / "run", 5)
    del recipe["data"]["dev"]
    ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", recipe))
    assert ended.code == 0, ended.stderr
    last = scratch / "run" / "checkpoints" / "step-00000005" / "model.safetensors"
    assert (scratch / "run" / "best" / "model.safetensors").read_bytes() == last.read_bytes()
    load_model(scratch / "run" / "best")


def test_training_in_a_thread(data: Path, scratch: Path) -> None:
    """Only the main thread may catch signals; elsewhere there is training without it."""
    results = []
    trainer = Trainer(as_recipe(plain(data, scratch / "run", 2)), SilentTrainingReporter())
    thread = threading.Thread(target=lambda: results.append(trainer.train()))
    thread.start()
    thread.join()
    assert results[0].finished


def test_metrics_log_is_cut_back(scratch: Path) -> None:
    path = scratch / "metrics.jsonl"
    log = MetricsLog(path, 0)
    log.write({"update": 1})
    size = log.size()
    log.write({"update": 2, "text": "é"})
    log.close()
    assert size == len('{"update": 1}\n')
    with path.open("ab") as file:
        file.write(b'{"upd')
    assert read_metrics(path) == [{"update": 1}, {"update": 2, "text": "é"}]
    log = MetricsLog(path, size)
    log.write({"update": 3})
    log.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"update": 1}, {"update": 3}]


def test_metrics_log_on_a_full_disk() -> None:
    log = MetricsLog(Path("/dev/full"), 0)
    with pytest.raises(QkvError, match=r"/dev/full: cannot be written to \(No space left on device\)"):
        log.write({"update": 1})
    log.close()


def test_a_damaged_folder_is_set_aside_in_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """Also where the earlier one is a link: its owner may have put the folder elsewhere."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "train"
    elsewhere.mkdir()
    (tmp_path / "damaged-train").symlink_to(elsewhere)
    for content in ("first", "second"):
        folder.mkdir()
        (folder / "data.bin").write_text(content)
        set_aside(folder)
        assert not folder.exists()
        assert (tmp_path / "damaged-train" / "data.bin").read_text() == content
    assert not list(elsewhere.iterdir())
