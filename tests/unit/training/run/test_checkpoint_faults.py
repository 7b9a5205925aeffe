"""Whatever happens to the disk or in the middle of a save, a good checkpoint stays and a bad one is never used."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.files import new_folder, read_manifest, verify_folder, write_atomic
from qkv.core.temporary import OLD, is_unique_name, unique_name
from qkv.training.run.checkpoint import list_checkpoints, newest_good
from qkv.training.run.folder import RunFolder
from tests.support.forks import Forks
from tests.support.tiny import assert_same, leftovers, plain, write_recipe

UPDATES = 8


@pytest.fixture(scope="module")
def half_way(in_memory: Path, data: Path, forks: Forks) -> Path:
    """A run of eight updates that stands at the sixth: checkpoints 2, 4, 6 and a best model."""
    return _trained(in_memory / "faults", data, forks, 6)


@pytest.fixture(scope="module")
def straight(in_memory: Path, data: Path, forks: Forks) -> Path:
    return _trained(in_memory / "faults-straight", data, forks, UPDATES)


def _trained(run: Path, data: Path, forks: Forks, updates: int) -> Path:
    recipe = plain(data, run, updates)
    recipe["training"]["save_every"] = recipe["validation"]["every"] = "2u"
    assert forks.qkv("train", write_recipe(run.with_suffix(".yaml"), recipe)).code == 0
    return run


@pytest.fixture
def run(half_way: Path, scratch: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(half_way, scratch / "run"))


def resume(forks: Forks, run: Path) -> Any:
    return forks.qkv("train", "--resume", run, f"training.stop_after={UPDATES}u")


@pytest.mark.parametrize(("update", "keep_last"), [(8, 2), (6, 1)], ids=["a new one", "the same again"])
def test_killed_at_every_step_of_a_save(
    update: int, keep_last: int, half_way: Path, scratch: Path, forks: Forks
) -> None:
    """A kill between any two changes of the disk, before every sync, and in the middle of every tensor file."""
    done = forks.call("tests.support.faults:die_at_every_step", str(half_way), str(scratch), update, keep_last)
    assert done.code == 0, done.stderr
    copies = sorted(scratch.iterdir(), key=lambda path: int(path.name))
    assert len(copies) > 40
    seen = []
    for run in copies:
        for folder in list_checkpoints(run / "checkpoints"):
            verify_folder(folder)
        RunFolder(run).clean()
        newest, complaints = newest_good(run / "checkpoints")
        assert complaints == []
        assert leftovers(run) == []
        verify_folder(run / "best")
        best = dict(read_manifest(run / "best"))["update"]
        seen.append((newest.name, best, len(list_checkpoints(run / "checkpoints"))))
    assert seen[0] == ("step-00000006", 6, 3)
    assert seen[-1] == (f"step-{update:08d}", update, keep_last)


def test_leftovers_are_gone_after_the_next_start(run: Path, straight: Path, forks: Forks) -> None:
    (run / "checkpoints" / "step-00000006").rename(unique_name(run / "checkpoints" / "step-00000006", OLD))
    (run / "best").rename(unique_name(run / "best", OLD))
    for name in ("checkpoints/step-00000008", "best", "data/train"):
        half = unique_name(run / name)
        half.mkdir()
        (half / "half").write_text("half")
    unique_name(run / "config.yaml").write_text("half")
    not_ours = [run / "mine.tmp", run / "best.tmp", run / "config.yaml.tmp", run / "checkpoints" / "step-00000008.tmp"]
    for path in not_ours:
        path.write_text("not qkv's")
    assert resume(forks, run).code == 0
    assert {path.read_text() for path in not_ours} == {"not qkv's"}
    assert_same(run, straight)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
def test_a_damaged_checkpoint_is_passed_over(name: str, run: Path, straight: Path, forks: Forks) -> None:
    """At 40 places a byte is changed, at 10 lengths the file is cut; every time it is noticed."""
    folder = run / "checkpoints" / "step-00000006"
    whole = (folder / name).read_bytes()
    spoiled = [_flipped(whole, len(whole) * place // 40) for place in range(40)]
    spoiled += [whole[: len(whole) * part // 10] for part in range(10)]
    for content in spoiled:
        (folder / name).write_bytes(content)
        with pytest.raises(CorruptFolder):
            verify_folder(folder)
    ended = resume(forks, run)
    assert ended.code == 0
    assert str(folder / name) in ended.stderr
    assert "going back to step-00000004" in ended.stderr
    assert_same(run, straight)


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


def test_a_damaged_newest_one_does_not_crowd_out_good_ones(run: Path, forks: Forks) -> None:
    """With keep_last 1 the damaged checkpoint 6 must not be what is kept when 5 is saved."""
    (run / "checkpoints" / "step-00000006" / "state.json").write_text("{}")
    changes = ["training.keep_last=1", "training.keep_best=0", "training.save_every=1u", "training.stop_after=5u"]
    assert forks.qkv("train", "--resume", run, *changes).code == 0
    assert [folder.name for folder in list_checkpoints(run / "checkpoints")] == ["step-00000005"]
    assert (run / "checkpoints" / "damaged-step-00000006").is_dir()


def test_all_damaged(run: Path, forks: Forks) -> None:
    for folder in list_checkpoints(run / "checkpoints"):
        (folder / "model.safetensors").write_bytes(b"")
    ended = resume(forks, run)
    assert ended.code == 1
    assert "holds no usable checkpoint" in ended.complaint
    assert len(list_checkpoints(run / "checkpoints")) == 3


def test_data_or_tokenizers_damaged(run: Path, straight: Path, forks: Forks) -> None:
    """Both are made again from the original files, and the run goes on as if nothing had been."""
    (run / "data" / "dev" / "store.json").unlink()
    text = run / "data" / "train" / "text.bin"
    text.write_bytes(_flipped(text.read_bytes(), 7))
    next((run / "tokenizer").rglob("*.*")).write_text("")
    ended = resume(forks, run)
    assert ended.code == 0
    assert "preparing the data again" in ended.stderr
    assert_same(run, straight)
    # They may have been the only copy.
    assert (run / "data" / "damaged-train" / "text.bin").exists()
    assert (run / "damaged-tokenizer").is_dir()


def test_disk_full_while_starting(data: Path, scratch: Path, forks: Forks) -> None:
    """No file can grow beyond a size: wherever that strikes there is one sentence, and a later try succeeds."""
    recipe = write_recipe(scratch / "recipe.yaml", plain(data, scratch / "run", 4))
    places = set()
    for largest in (10, 700, 1500, 4000, 20000, 30000):
        ended = forks.call("tests.support.faults:with_small_files", largest, "train", str(recipe))
        assert ended.code == 1, (largest, ended.stderr)
        assert "File too large" in ended.complaint
        places.add(Path(ended.complaint.split(": ")[0]).name)
        assert list_checkpoints(scratch / "run" / "checkpoints") == []
    assert places == {"qkv.json", "config.yaml", "model.safetensors", "optimizer.safetensors"}
    # The best model was written before the disk was full: a new run must not destroy it, this one can go on.
    assert forks.qkv("train", recipe).code == 2
    assert forks.qkv("train", "--resume", scratch / "run").code == 0


@pytest.fixture
def small_disk(scratch: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = scratch / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "qkv-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a file system of one megabyte")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_disk_full_while_saving(small_disk: Path, half_way: Path, straight: Path, forks: Forks) -> None:
    """A real full disk, with more and more room: one sentence, the last checkpoint stays good, nothing is lost."""
    run = small_disk / "run"
    shutil.copytree(half_way, run)
    ballast, codes = small_disk / "ballast", []
    for kilobytes in (0, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160):
        shutil.rmtree(run)
        shutil.copytree(half_way, run)
        free = shutil.disk_usage(small_disk).free
        ballast.write_bytes(bytes(max(0, free - kilobytes * 1024)))
        ended = resume(forks, run)
        codes.append(ended.code)
        if ended.code != 0:
            assert "No space left" in ended.complaint, kilobytes
        ballast.unlink()
        RunFolder(run).clean()
        newest, complaints = newest_good(run / "checkpoints")
        assert newest.name >= "step-00000006"
        assert complaints == []
        verify_folder(run / "best")
    assert codes[0] == 1
    assert codes.count(1) > 5
    assert resume(forks, run).code == 0
    assert_same(run, straight)


def test_folder_that_cannot_be_made(data: Path, scratch: Path, forks: Forks) -> None:
    (scratch / "file").write_text("")
    for place in (scratch / "file" / "run", Path("/proc/qkv/run"), Path("/dev/null")):
        ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", plain(data, place)))
        assert ended.code == 1
        assert f"{place}: cannot be created" in ended.complaint


def test_failing_writes_name_the_file(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(scratch / "a", "before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(QkvError, match=r"a: cannot be written \(No space left on device\)"):
        write_atomic(scratch / "a", "after")
    with (
        pytest.raises(QkvError, match=r"b.*: cannot be written \(No space left on device\)"),
        new_folder(scratch / "b", {}) as temporary,
    ):
        (temporary / "file").write_text("x")
    assert (scratch / "a").read_text() == "before"
    assert [path.name for path in scratch.iterdir()] == ["a"]


def test_a_failed_swap_puts_the_old_folder_back(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_folder(scratch / "a", {"number": 1}):
        pass
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if is_unique_name(self.name) and not self.name.endswith(OLD):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(QkvError, match="Input/output error"), new_folder(scratch / "a", {"number": 2}):
        pass
    assert dict(verify_folder(scratch / "a"))["number"] == 1
    assert [path.name for path in scratch.iterdir()] == ["a"]


def test_unreadable_file_counts_as_damaged(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_path = Path.open

    def broken(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if self.match("step-00000006/model.safetensors"):
            raise OSError(5, "Input/output error", str(self))
        return open_path(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", broken)
    newest, complaints = newest_good(run / "checkpoints")
    assert newest.name == "step-00000004"
    assert "Input/output error" in complaints[0]
