"""A job has one driver at a time, and only its actors commit."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.core.errors import QkvError, UsageError
from qkv.core.progress import SilentReporter
from qkv.translate.cluster.job import FileJob, JobOptions, file_job
from qkv.translate.cluster.lease import DRIVER, GIVEN_UP_AFTER, driving, require_driver
from qkv.translate.cluster.storage import location_of


def silent(sentence: str) -> None:
    pass


def no_pause(seconds: float) -> None:
    pass


def write_lease(folder: Path, **about: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / DRIVER).write_text(json.dumps(about))


def small_job(folder: Path) -> FileJob:
    (folder / "a.txt").write_text("a\n")
    return file_job(str(folder / "a.txt"), str(folder / "out"), ".txt", JobOptions(), SilentReporter())


def test_a_second_driver_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = location_of(str(tmp_path / "out"))
    with driving(folder, silent, no_pause) as driver:
        written = (tmp_path / "out" / DRIVER).read_bytes()
        with pytest.raises(UsageError, match=rf"out: process {os.getpid()} on .* drives this job already"):
            driving(folder, silent, no_pause).__enter__()
        assert (tmp_path / "out" / DRIVER).read_bytes() == written
        require_driver(folder, driver)
    assert not (tmp_path / "out" / DRIVER).exists()


def test_the_job_of_a_dead_process_of_this_machine_is_taken_over_at_once(tmp_path: Path) -> None:
    folder = location_of(str(tmp_path / "out"))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write_lease(tmp_path / "out", driver="old", host=socket.gethostname(), process=ended.pid, started="1")
    paused: list[float] = []
    with driving(folder, silent, paused.append):
        assert json.loads((tmp_path / "out" / DRIVER).read_text())["process"] == os.getpid()
    assert len(paused) == 1


def test_a_number_that_another_process_has_now_is_no_driver(tmp_path: Path) -> None:
    write_lease(tmp_path / "out", driver="old", host=socket.gethostname(), process=os.getpid(), started="1")
    with driving(location_of(str(tmp_path / "out")), silent, no_pause):
        pass


def test_a_driver_elsewhere_is_given_up_when_it_does_not_renew(tmp_path: Path) -> None:
    write_lease(tmp_path / "out", driver="old", host="elsewhere", process=1, renewals=3)
    said: list[str] = []
    paused: list[float] = []
    with driving(location_of(str(tmp_path / "out")), said.append, paused.append):
        assert len(paused) == GIVEN_UP_AFTER + 1
    assert said == [f"{tmp_path}/out: was driven from elsewhere; waiting 30 seconds whether it still is"]


def test_a_driver_elsewhere_that_renews_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_lease(folder, driver="old", host="elsewhere", process=1, renewals=3)

    def renewed(seconds: float) -> None:
        write_lease(folder, driver="old", host="elsewhere", process=1, renewals=4)

    with pytest.raises(UsageError, match="process 1 on elsewhere drives this job already"):
        driving(location_of(str(folder)), silent, renewed).__enter__()
    assert json.loads((folder / DRIVER).read_text())["driver"] == "old"


def test_of_two_that_start_at_once_the_one_that_wrote_last_drives(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def overtaken(seconds: float) -> None:
        write_lease(folder, driver="other", host="elsewhere", process=7)

    with pytest.raises(UsageError, match="process 7 on elsewhere drives this job already"):
        driving(location_of(str(folder)), silent, overtaken).__enter__()
    assert json.loads((folder / DRIVER).read_text())["driver"] == "other"


def test_actors_of_a_former_driver_commit_nothing(tmp_path: Path) -> None:
    job = small_job(tmp_path)
    with driving(job.folder.place, silent, no_pause) as driver:
        mine = job.folder.driven_by(driver)
        mine.claim({}, restart=False)
        mine.commit(job.inputs.shards[0], b"A\n", {"failed": []})
        write_lease(tmp_path / "out", driver="other", host="elsewhere", process=7)
        with pytest.raises(QkvError, match="out: another driver has taken this job over"):
            mine.commit(job.inputs.shards[0], b"B\n", {"failed": []})
        with pytest.raises(QkvError, match="another driver"):
            mine.finish({}, {})
    assert (tmp_path / "out" / "part-000000.txt").read_bytes() == b"A\n"
    # What another driver signed stays.
    assert (tmp_path / "out" / DRIVER).exists()


def test_a_lease_alone_is_no_job_and_no_obstacle(tmp_path: Path) -> None:
    job = small_job(tmp_path)
    write_lease(tmp_path / "out", driver="other", host="elsewhere", process=7)
    job.folder.require_usable()
    job.folder.claim({"model": 1}, restart=False)
    (tmp_path / "out" / "letter").write_text("dear")
    job.folder.claim({"model": 2}, restart=True)
    # Starting over removes what the job has, and not who drives it.
    assert {path.name for path in (tmp_path / "out").iterdir()} == {DRIVER, "job.json", "done"}
