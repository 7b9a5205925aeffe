"""The demonstration from start to finish on a few words: in a script, on a terminal, interrupted, started again."""

import signal
from pathlib import Path
from typing import Any

import pytest

from qkv.cli.demo import INVITATION
from tests.support.forks import Child, Ended, Forks
from tests.support.terminal import CTRL_C, CTRL_D, ENTER, Terminal
from tests.support.tiny import lines_of, more_lines, updates_of

FEW = ("--words", 300)


def start(forks: Forks, folder: Path, *arguments: Any) -> Child:
    given = ("demo", "--folder", folder, *FEW, *arguments)
    return forks.start("tests.support.terminal:on_one_core", *map(str, given))


@pytest.fixture(scope="module")
def first(in_memory: Path, forks: Forks) -> tuple[Path, Ended]:
    """The first call, where nobody sits in front of it."""
    folder = in_memory / "demo"
    return folder, start(forks, folder, "--minutes", 0.03).wait(120)


def test_it_trains_measures_and_shows(first: tuple[Path, Ended]) -> None:
    folder, ended = first
    assert ended.code == 0, ended.stderr
    assert "training, 0.03 minutes in total" in ended.stderr
    assert "6 words that the model has not seen" in ended.stdout
    for words in ("WER", "PER", "95 % interval", "Published WER, for orientation", "Which letters of"):
        assert words in ended.stdout
    assert f"The model is in {folder}/run/best" in ended.stdout
    assert (folder / "run" / "best" / "manifest.json").exists()
    assert INVITATION not in ended.stdout


def test_started_again_it_offers_the_model_at_once(first: tuple[Path, Ended], forks: Forks) -> None:
    folder, ended = first
    lines = lines_of(folder / "run")
    again = start(forks, folder).wait()
    assert (again.code, again.stdout) == (0, ended.stdout)
    assert again.stderr.splitlines()[1:] == [f"{folder} has a trained model; add --again to train a new one"]
    assert lines_of(folder / "run") == lines


@pytest.mark.parametrize("leave", [ENTER, CTRL_D, CTRL_C])
def test_words_are_answered_at_a_prompt(first: tuple[Path, Ended], forks: Forks, leave: str) -> None:
    terminal = Terminal(forks, "demo", "--folder", first[0])
    # Impatience before the question is no answer to it.
    terminal.hit(ENTER)
    terminal.until(INVITATION)
    terminal.until("word> ")
    terminal.hit("Hello Qzzx" + ENTER)
    answer = terminal.until("word> ")
    assert "hello: in the dictionary, but new to the model" in answer
    assert "HH AH L OW" in answer
    assert "h e l l o" in answer
    assert "zx: not in the dictionary, new to the model" in answer
    terminal.hit(leave)
    # Python's readline does not see a Ctrl-C in the moment between the question and its waiting for keys.
    code, rest = terminal.end(insist=leave)
    assert code == 0
    assert set(rest.strip()) <= set("^C")


def test_interrupted_while_it_trains_it_goes_on(scratch: Path, forks: Forks) -> None:
    terminal = Terminal(forks, "demo", "--folder", scratch / "demo", *FEW, "--minutes", 60)
    run = scratch / "demo" / "run"
    assert "training, 60 minutes in total" in terminal.until("59:")
    terminal.hit(CTRL_C)
    code, rest = terminal.end()
    updates = len(updates_of(run))
    assert code == 130
    assert f"stopped after update {updates:,}; resume with the same command" in rest
    assert "Traceback" not in terminal.shown

    child = start(forks, scratch / "demo", "--minutes", 60)
    child.until(more_lines(run))
    child.send(signal.SIGINT)
    ended = child.wait()
    assert ended.code == 130
    assert "resuming training, 60 minutes in total" in ended.stderr
    assert [update for update, *_ in updates_of(run)][: updates + 1] == list(range(1, updates + 2))
    assert ended.stderr.splitlines()[-1].startswith("stopped after update")


def test_again_trains_anew(first: tuple[Path, Ended], forks: Forks) -> None:
    """Last: it changes the folder of the tests above."""
    folder = first[0]
    recipe, results = folder / "run" / "config.yaml", folder / "results.json"
    before = [path.stat().st_mtime_ns for path in (recipe, results)]
    ended = start(forks, folder, "--again", "--minutes", 0.01).wait()
    assert ended.code == 0, ended.stderr
    assert "training, 0.01 minutes in total" in ended.stderr
    after = [path.stat().st_mtime_ns for path in (recipe, results)]
    assert all(new > old for new, old in zip(after, before, strict=True))
