"""Temporary files and folders: nobody else's are touched, and those of dead processes go."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.core.errors import UsageError
from qkv.core.files import new_folder, verify_folder, write_atomic
from qkv.core.temporary import OLD, is_unique_name, old_name, remove_leftovers, temporary_folder, unique_name


def made(folder: Path, content: str) -> None:
    with new_folder(folder, {"content": content}) as temporary:
        (temporary / "file").write_text(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def in_a_process_that_dies(work: Callable[[], None]) -> None:
    """`work`, then kill -9."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_neighbours_with_such_names_stay(tmp_path: Path) -> None:
    for name in ("model.tmp", "model.old.tmp", "model.qkv-mine.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis").write_text("mine")
    (tmp_path / "report.tmp").write_text("mine")
    before = names(tmp_path)
    for content in ("first", "second"):
        made(tmp_path / "model", content)
        write_atomic(tmp_path / "report", content)
    assert (tmp_path / "model" / "file").read_text() == (tmp_path / "report").read_text() == "second"
    assert names(tmp_path) == sorted([*before, "model", "report"])
    assert {path.read_text() for path in tmp_path.glob("*/thesis")} == {"mine"}
    assert (tmp_path / "report.tmp").read_text() == "mine"


def test_leftovers_of_the_dead_go_and_work_of_the_living_stays(tmp_path: Path) -> None:
    def die_writing() -> None:
        with new_folder(tmp_path / "model", {}) as temporary:
            (temporary / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    in_a_process_that_dies(die_writing)
    (dead,) = tmp_path.iterdir()
    assert is_unique_name(dead.name)
    with temporary_folder(tmp_path / "model") as living, temporary_folder(tmp_path / "other") as other:
        assert names(tmp_path) == sorted([living.name, other.name])
        made(tmp_path / "model", "done")
        remove_leftovers(tmp_path, "*")
        assert names(tmp_path) == sorted([living.name, other.name, "model"])
    assert names(tmp_path) == ["model"]


def test_a_folder_caught_between_two_renames_is_put_back(tmp_path: Path) -> None:
    made(tmp_path / "model", "old")
    with temporary_folder(tmp_path / "model") as temporary:
        (tmp_path / "model").rename(old_name(temporary))
        remove_leftovers(tmp_path, "model")
        assert not (tmp_path / "model").exists(), "another process is just about to rename"
    remove_leftovers(tmp_path, "model")
    assert dict(verify_folder(tmp_path / "model"))["content"] == "old"
    (tmp_path / "model").rename(unique_name(tmp_path / "model", OLD))
    made(tmp_path / "model", "new")
    assert names(tmp_path) == ["model"]
    assert dict(verify_folder(tmp_path / "model"))["content"] == "new"


def test_names_are_taken_literally(tmp_path: Path) -> None:
    """A target named * is no pattern."""
    unique_name(tmp_path / "other").write_text("left by somebody else")
    write_atomic(tmp_path / "*", "x")
    assert len(names(tmp_path)) == 2


def test_what_others_put_into_a_folder_is_kept(tmp_path: Path) -> None:
    made(tmp_path / "model", "old")
    (tmp_path / "model" / ".git" / "refs").mkdir(parents=True)
    (tmp_path / "model" / ".git" / "HEAD").write_text("main")
    (tmp_path / "model" / "link").symlink_to("nowhere")
    made(tmp_path / "model", "new")
    assert names(tmp_path / "model") == [".git", "file", "link", "manifest.json"]
    assert (tmp_path / "model" / ".git" / "refs").is_dir()
    assert (tmp_path / "model" / ".git" / "HEAD").read_text() == "main"
    assert verify_folder(tmp_path / "model")["files"].keys() == {"file"}


FOREIGN = [
    None,
    "[1]",
    "5",
    '["checksum"]',
    '{"name": "a web application"}',
    "not json",
    "",
    '{"name": "x"} // a comment',
]


@pytest.mark.parametrize("content", FOREIGN)
def test_a_folder_of_somebody_else_is_not_replaced(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "thesis").write_text("mine")
    if content is not None:
        (tmp_path / "project" / "manifest.json").write_text(content)
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "project", tmp_path / "file"):
        with pytest.raises(UsageError, match="was not made by qkv; choose another folder"):
            made(path, "new")
    assert (tmp_path / "project" / "thesis").read_text() == (tmp_path / "file").read_text() == "mine"
    assert names(tmp_path) == ["file", "project"]


def test_a_folder_whose_manifest_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "project" / "manifest.json").mkdir(parents=True)
    with pytest.raises(UsageError, match="was not made by qkv; choose another folder"):
        made(tmp_path / "project", "new")
    assert (tmp_path / "project" / "manifest.json").is_dir()


@pytest.mark.parametrize("damage", [b"\xff", b"}"])
def test_a_folder_of_ours_with_a_damaged_manifest_is_replaced(damage: bytes, tmp_path: Path) -> None:
    made(tmp_path / "model", "old")
    manifest = tmp_path / "model" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + damage)
    made(tmp_path / "model", "new")
    assert dict(verify_folder(tmp_path / "model"))["content"] == "new"


def test_links_stay_and_what_they_lead_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    made(tmp_path / "there" / "model", "old")
    write_atomic(tmp_path / "there" / "report", "old")
    for name in ("model", "report", "new"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    made(tmp_path / "model", "new")
    for name in ("report", "new"):
        write_atomic(tmp_path / name, "new")
    assert all((tmp_path / name).is_symlink() for name in ("model", "report", "new"))
    assert names(tmp_path / "there") == ["model", "new", "report"]
    contents = [(tmp_path / "there" / name).read_text() for name in ("model/file", "new", "report")]
    assert contents == ["new", "new", "new"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device_is_not_replaced_by_a_file(device: str) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        write_atomic(Path(device), "x")
    assert Path(device).is_char_device()
