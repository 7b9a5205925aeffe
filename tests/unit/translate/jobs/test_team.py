"""Several processes: the same as one, none too many, and none that is left."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qkv.core.errors import QkvError
from qkv.translate import translator
from qkv.translate.jobs import team
from qkv.translate.jobs.worker import Setup
from qkv.translate.texts import DecodeOptions
from tests.support.speaker import save_speaker, sentences, torch_translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_speaker(tmp_path_factory.mktemp("models") / "one")


def test_several_processes_give_the_same_as_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, scores and alignments included."""
    monkeypatch.setattr(translator, "CHUNK", 8)
    monkeypatch.setattr(translator, "PATIENCE", -1.0)
    given = sentences(40)
    prefixes = [["", "aa"][place % 2] for place in range(40)]
    one, two = (
        torch_translator(folder, workers=workers).translate(given, alignment=True, prefixes=prefixes)
        for workers in (1, 2)
    )
    assert one == two
    assert len(one) == 40


def test_a_stream_that_is_closed_leaves_no_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "CHUNK", 4)
    monkeypatch.setattr(translator, "PATIENCE", -1.0)
    started = watched_workers(monkeypatch)
    stream = torch_translator(folder, workers=2).stream(sentences(40))
    next(stream)
    assert len(started) == 2
    stream.close()
    assert all(worker.process.poll() is not None for worker in started)


def test_no_worker_is_started_that_has_nothing_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "CHUNK", 4)
    monkeypatch.setattr(translator, "PATIENCE", -1.0)
    monkeypatch.setenv("QKV_MAX_WORKERS", "9")
    started = watched_workers(monkeypatch)
    found = torch_translator(folder, workers=9).translate(sentences(8))
    assert len(found) == 8
    assert len(started) == 2


def watched_workers(monkeypatch: pytest.MonkeyPatch) -> list[team.Worker]:
    """The workers that will be started."""
    started: list[team.Worker] = []

    class Watched(team.Worker):
        def __init__(self, setup: Setup) -> None:
            super().__init__(setup)
            started.append(self)

    monkeypatch.setattr(team, "Worker", Watched)
    return started


def fake_workers(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(translator, "CHUNK", 2)
    monkeypatch.setattr(translator, "PATIENCE", -1.0)
    monkeypatch.setattr(team, "command", lambda given: [sys.executable, "-S", "-c", program, str(given)])


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(3)", "a worker process ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "a worker process was killed by SIGKILL"),
    ],
)
def test_a_dead_worker_is_one_sentence(program: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_workers(monkeypatch, program)
    with pytest.raises(QkvError, match=words):
        torch_translator(folder, workers=2).translate(sentences(9))


def test_an_error_in_a_worker_is_told_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        f"import sys; sys.path[:0] = {sys.path}\n"
        "import pickle\nfrom qkv.core.errors import DataError\n"
        "pickle.dump(DataError('line 7 is wrong'), open(int(sys.argv[1]), 'wb')); sys.stdin.buffer.read()"
    )
    fake_workers(monkeypatch, program)
    with pytest.raises(QkvError, match=r"^line 7 is wrong$"):
        torch_translator(folder, workers=2).translate(sentences(9))


def test_a_worker_refuses_a_model_that_was_replaced(folder: Path) -> None:
    wanted = torch_translator(folder)
    setup = Setup([folder], wanted.models.checksums, wanted.search, DecodeOptions(), 100, wanted.reading)
    assert setup.open()([]) == []
    with pytest.raises(QkvError, match="was replaced while its workers were starting"):
        replace(setup, checksums=["another"]).open()
