"""`benchmarks/compare_families.py` on made-up words: what is measured is kept, and with other options is another."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from qkv.training.run.folder import read_metrics

ROOT = Path(__file__).parents[2]
FAMILIES = ["Transformer", "RNN with attention"]
TINY = (
    "--parameters 5000 --budgets updates --updates 2 --first-word-updates 1 --lengths 3 --growth-lengths 4 8 --rounds 1"
)
TASK, FIRST_WORD, GROWTH = "| baseline |", "first word:", "microseconds"
"""What the tables of a part contain."""
OTHER = {
    "--rate 0.001": [TASK],
    "--rates Transformer=0.001": [TASK],
    "--updates 3": [TASK],
    "--pairs 50": [TASK],
    "--sources 10": [TASK],
    "--language deu": [TASK],
    "--rounds 2": [TASK, GROWTH],
    "--first-word-updates 2": [FIRST_WORD],
}
"""An option, and the parts that depend on it."""
PROGRAM = ["benchmarks/compare_families.py"]
OTHER_MODELS = [
    "-c",
    "import runpy, sys; sys.path.insert(0, 'benchmarks'); import families.results; families.results.MODELS += 1; "
    "runpy.run_path('benchmarks/compare_families.py', run_name='__main__')",
]
"""The program after a change of the models."""


def write_words(folder: Path, language: str, seed: int) -> None:
    """LANGUAGE_train.tsv and _test.tsv: 200 and 20 words that sound as they are written."""
    draw = random.Random(seed)
    words = ["".join(draw.sample("abcdefgh", k=6)) for _ in range(220)]
    for part, some in (("train", words[20:]), ("test", words[:20])):
        lines = "".join(f"{word}\t{' '.join(word)}\n" for word in some)
        (folder / f"{language}_{part}.tsv").write_text(lines, encoding="utf-8")


class Measured:
    """A folder of results; what the program prints and keeps with tiny settings, and others where they are given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        for seed, language in enumerate(("hun", "deu")):
            write_words(folder, language, seed)

    def ended(self, *others: str, program: Sequence[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *program, "--out", str(self.out), *TINY.split()]
        ended = subprocess.run(
            [*command, "--families", *FAMILIES, *others], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended

    def tables(self, *others: str, program: Sequence[str] = PROGRAM) -> str:
        return self.ended("--sigmorphon", str(self.folder), *others, program=program).stdout

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "results.jsonl").read_text(encoding="utf-8").splitlines()]

    def keep(self, lines: list[dict[str, Any]]) -> None:
        kept = "".join(json.dumps(line) + "\n" for line in lines)
        (self.out / "results.jsonl").write_text(kept, encoding="utf-8")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return Measured(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def first(measured: Measured) -> str:
    """What is printed first."""
    return measured.tables("--pictures", str(measured.out))


@pytest.fixture
def before(measured: Measured, first: str) -> Iterator[list[dict[str, Any]]]:
    """The lines of the first call; only they are left to the next test."""
    lines = measured.lines
    yield lines
    measured.keep(lines)


def test_every_part_has_its_tables_and_its_pictures(measured: Measured, first: str) -> None:
    titles = [line for line in first.splitlines() if line and not line.startswith("|")]
    assert [title.split(",")[0].split("-")[0] for title in titles] == [
        "sigmorphon",
        "first word: copied",
        "first word: probed",
        "path: named",
        *["microseconds of a processor a target token"] * 2,
    ]
    for name in ("sigmorphon-hun_updates", "training", "decoding", "first_word"):
        drawn = ElementTree.parse(measured.out / f"families_{name}.svg")
        assert {*FAMILIES} <= {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}, name


def test_what_is_measured_is_not_measured_again(measured: Measured, first: str, before: list[dict[str, Any]]) -> None:
    assert measured.tables() == first
    assert measured.lines == before


def test_another_size_is_another_measurement(measured: Measured, first: str, before: list[dict[str, Any]]) -> None:
    other = measured.tables("--parameters", "20000")
    after = measured.lines
    assert after[: len(before)] == before
    new = after[len(before) :]
    assert sorted(line["part"] for line in new) == ["growth"] * 4 + ["speed"] * 2 + ["task"] * 2
    assert {line["parameters"] for line in new} == {20000}
    sizes = [line["size"] for line in new if line["part"] == "task"]
    assert all(f"| {size:,} |" in other and f"| {size:,} |" not in first for size in sizes)
    assert measured.tables("--table") == first


@pytest.mark.parametrize("option", OTHER)
def test_nothing_is_shown_that_was_measured_otherwise(option: str, measured: Measured, first: str) -> None:
    shown = measured.tables("--table", *option.split())
    for title in (TASK, FIRST_WORD, GROWTH):
        assert title in first
        assert (title in shown) == (title not in OTHER[option])


def test_other_models_are_measured_and_trained_anew(measured: Measured, before: list[dict[str, Any]]) -> None:
    assert not measured.tables("--table", program=OTHER_MODELS).strip()
    assert TASK in measured.tables("--parts", "tasks", program=OTHER_MODELS)
    new = measured.lines[len(before) :]
    assert sorted(line["part"] for line in new) == ["speed"] * 2 + ["task"] * 2
    assert not {line.get("run") for line in new if line["part"] == "task"} & {line.get("run") for line in before}


def test_a_family_has_its_own_rate(measured: Measured, before: list[dict[str, Any]]) -> None:
    shown = measured.tables("--parts", "tasks", "--rates", "RNN with attention=0.001")
    table = [line.split(" | ") for line in shown.split("\n\n")[1].splitlines()]
    assert [line[2] for line in table] == ["rate", "---:", "0.002", "0.001"]
    (new,) = measured.lines[len(before) :]
    assert (new["family"], new["rate"]) == ("RNN with attention", 0.001)
    updates = read_metrics(measured.out / "runs" / new["run"] / "metrics.jsonl")
    assert max(line["lr"] for line in updates if "lr" in line) == 0.001


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("Convs2s=0.001", "'Convs2s=0.001' does not begin with a family and =; there are 'Transformer', "),
        ("0.001", "'0.001' does not begin with a family and =; there are 'Transformer', "),
        ("ConvS2S=fast", "'ConvS2S=fast' does not end with a number, as ConvS2S=1e-3 does"),
    ],
)
def test_a_rate_of_no_family_is_refused(given: str, complaint: str, scratch: Path) -> None:
    command = [sys.executable, *PROGRAM, "--out", str(scratch), "--rates", given]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"argument --rates: {complaint}" in ended.stderr
    assert not (scratch / "results.jsonl").exists()


def test_a_family_that_is_added_later_is_measured(measured: Measured, before: list[dict[str, Any]]) -> None:
    measured.ended("--parts", "growth", "first_word", "--families", *FAMILIES, "ConvS2S")
    new = [
        (line["part"], line.get("family", line.get("name")), line["length"]) for line in measured.lines[len(before) :]
    ]
    assert new == [("growth", "ConvS2S", 4), ("growth", "ConvS2S", 8), ("first word", "ConvS2S", 3)]


def test_a_run_is_resumed_whatever_was_asked_in_between(measured: Measured, before: list[dict[str, Any]]) -> None:
    lost = next(line for line in before if line["part"] == "task")
    metrics = (measured.out / "runs" / lost["run"] / "metrics.jsonl").read_bytes()
    measured.keep([line for line in before if line != lost])
    # Writes its data, and measures nothing.
    measured.tables("--table", "--pairs", "50", "--sources", "10")
    measured.tables()
    (again,) = [line for line in measured.lines if line not in before]
    assert again | {"decoded_per_second": 0} == lost | {"decoded_per_second": 0}
    assert (measured.out / "runs" / lost["run"] / "metrics.jsonl").read_bytes() == metrics


def test_bytenet_is_left_out_of_translation_with_a_word(measured: Measured) -> None:
    for part in ("train", "test_2016_flickr"):
        for language in ("en", "de"):
            lines = "".join(f"{language} {part} {number}\n" for number in range(30))
            (measured.folder / f"{part}.{language}").write_text(lines, encoding="utf-8")
    options = ["--table", "--parts", "tasks", "--multi30k", str(measured.folder)]
    assert "ByteNet" not in measured.ended(*options).stderr
    (said,) = measured.ended(*options, "--families", *FAMILIES, "ByteNet").stderr.splitlines()
    assert said.startswith("multi30k: ByteNet is left out")
