"""A file system that cannot be written to: one sentence, before anything is changed."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import QkvError
from qkv.core.files import new_folder, write_atomic
from qkv.training.run.folder import MetricsLog, RunFolder


def refused(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_run_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(QkvError, match=r"run: cannot be created \(Read-only file system\); choose a new or empty"):
        RunFolder(tmp_path / "run").create()


def test_a_run_cannot_be_locked_or_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path)
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(QkvError, match=r"cannot be written to \(Read-only file system\)"), run.locked():
        pass
    with pytest.raises(QkvError, match=r"cannot be written to \(Read-only file system\)"):
        MetricsLog(run.metrics, 0)


def test_what_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_folder(tmp_path / "model", {}) as folder:
        (folder / "weights").write_text("good")
    write_atomic(tmp_path / "config.yaml", "good")
    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(QkvError, match="nothing there was changed"), new_folder(tmp_path / "model", {}) as folder:
        (folder / "weights").write_text("bad")
    with pytest.raises((OSError, QkvError)):
        write_atomic(tmp_path / "config.yaml", "bad")
    assert (tmp_path / "model" / "weights").read_text() == "good"
    assert (tmp_path / "config.yaml").read_text() == "good"
