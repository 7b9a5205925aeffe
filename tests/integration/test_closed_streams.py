"""Every verb without some of its standard streams does its work, and never ends in a traceback."""

from pathlib import Path

import pytest

from tests.support.forks import Forks
from tests.support.tiny import plain, write_recipe

CLOSED = "tests.support.faults:with_closed_streams"
EVERY = [[2], [0, 1, 2]]


@pytest.fixture(scope="module")
def run(in_memory: Path, data: Path, forks: Forks) -> Path:
    recipe = write_recipe(in_memory / "closed.yaml", plain(data, in_memory / "closed", 4))
    assert forks.qkv("train", recipe).code == 0
    return in_memory / "closed"


@pytest.mark.parametrize(
    "verb",
    [
        "translate {run} search=greedy --engine torch --input {data}/test.src --output {new}/out",
        "evaluate {run} --src {data}/test.src --ref {data}/test.tgt --metrics chrf --engine torch",
        "evaluate --hyp {data}/test.src --ref {data}/test.tgt --metrics chrf",
        "average {run} --last 1 --out {new}/mean",
        "export {run} --to huggingface --out {new}/hf",
        "data check {run}/config.yaml",
        "data modality --src {data}/dev.src --tgt {data}/dev.tgt",
        "tokenizer train {run}/config.yaml --out {new}/pieces",
        "tokenizer encode {run}/tokenizer",
        "config show {run}/config.yaml",
        "config reference",
        "show beam {run} abc --out {new}/beam.svg",
        "train {run}/config.yaml run={new}/again",
        "train --resume {run} training.stop_after=5u",
        "--help",
        "--version",
    ],
)
def test_a_verb_without_its_streams(verb: str, run: Path, data: Path, scratch: Path, forks: Forks) -> None:
    for number, closed in enumerate(EVERY):
        new = scratch / str(number)
        new.mkdir()
        ended = forks.call(CLOSED, closed, *verb.format(run=run, data=data, new=new).split())
        assert ended.code == 0, (closed, ended.stderr)
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "verb",
    [
        "translate {run} search=greedy --engine torch",
        "translate {run} search=greedy --engine torch --input {data}/test.src",
        "score {run} --src {data}/test.src --tgt {data}/test.tgt",
    ],
)
def test_a_result_that_nobody_can_read_is_refused(verb: str, run: Path, data: Path, forks: Forks) -> None:
    arguments = verb.format(run=run, data=data).split()
    assert forks.call(CLOSED, [2], *arguments).code == 0
    ended = forks.call(CLOSED, [1], *arguments)
    assert ended.code == 1
    assert ended.stderr.strip().endswith(
        "standard output is closed, so the result would be lost; write it to a file with > FILE"
    )


@pytest.mark.parametrize(
    ("verb", "code"),
    [("train nowhere.yaml", 2), ("translate nowhere", 1), ("trian", 2), ("export nowhere --to huggingface --out x", 1)],
)
def test_a_failure_without_its_streams_keeps_its_exit_code(verb: str, code: int, forks: Forks) -> None:
    for closed in EVERY:
        ended = forks.call(CLOSED, closed, *verb.split())
        assert ended.code == code, (closed, ended.stderr)
        assert "Traceback" not in ended.stderr


def test_a_file_never_takes_the_place_of_a_closed_stream(run: Path, data: Path, scratch: Path, forks: Forks) -> None:
    """What is printed would be written into the first file that is opened, if that took the number of the stream."""
    out = scratch / "out"
    arguments = f"translate {run} search=greedy --engine torch --input {data}/test.src --output {out}".split()
    assert forks.call(CLOSED, [1, 2], *arguments).code == 0
    assert len(out.read_text(encoding="utf-8").split("\n")) == len((data / "test.src").read_text().split("\n"))
