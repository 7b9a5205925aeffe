"""qkv distill: line for line what the teacher says, whatever stops it, and what it was made from."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from qkv.config import load_config
from qkv.core.files import MANIFEST, read_manifest, verify_folder
from qkv.core.outputs import MARKER
from qkv.core.progress import SilentReporter
from qkv.search.beam import BeamConfig
from qkv.training.recipe import Recipe
from qkv.translate.closest import sentence_bleu
from qkv.translate.jobs.distill import DISTILLED, distill, prepare_files
from qkv.translate.translator import Translator
from tests.support.commands import TORCH, quiet, refused, written, written_lines
from tests.support.forks import Forks
from tests.support.speaker import save_speaker, sentences
from tests.support.tiny import write_recipe

SETTINGS = ("search.max_factor=1", "search.size=3", *TORCH)
SEARCH = BeamConfig(size=3, max_factor=1)


@pytest.fixture(scope="module")
def teacher(in_memory: Path) -> Path:
    return save_speaker(in_memory / "teacher")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    """Sixty lines, many of them twice."""
    given = written_lines(in_memory / "distill.src")
    return written(given, given.read_bytes() + given.read_bytes()[:200].rpartition(b"\n")[0] + b"\n")


@pytest.fixture(scope="module")
def targets(in_memory: Path, lines: Path) -> Path:
    count = lines.read_text().count("\n")
    return written(in_memory / "distill.tgt", "".join(f"{text}\n" for text in sentences(count, seed=9)).encode())


@pytest.fixture(scope="module")
def straight(in_memory: Path, teacher: Path, lines: Path, forks: Forks) -> Path:
    out = in_memory / "straight"
    ended = forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--out", out)
    assert quiet(ended).startswith(f'data:\n  root: "{out}"\n  train: {{kind: text, src: train.src, tgt: train.tgt}}')
    return out


def texts(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_line_n_is_what_the_teacher_says_to_line_n(straight: Path, teacher: Path, lines: Path) -> None:
    assert (straight / "train.src").read_bytes() == lines.read_bytes()
    found = Translator(teacher, "torch", SEARCH).translate(texts(lines))
    assert texts(straight / "train.tgt") == [one.text for one in found]
    assert sorted(path.name for path in straight.iterdir()) == [MANIFEST, MARKER, "train.src", "train.tgt"]


def test_the_manifest_says_what_it_was_made_from(
    straight: Path, teacher: Path, lines: Path, scratch: Path, forks: Forks
) -> None:
    found = dict(verify_folder(straight))
    assert found["what"] == "distilled data"
    assert found["teacher"] == [read_manifest(teacher)["checksum"]]
    assert found["search"] == SEARCH.within(None).model_dump(mode="json")
    # Made again, elsewhere and later, it is the same to the byte.
    quiet(forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--out", scratch / "again"))
    assert (scratch / "again" / MANIFEST).read_bytes() == (straight / MANIFEST).read_bytes()
    # And given once more, nothing is done.
    before = {path.name: path.stat().st_mtime_ns for path in straight.iterdir()}
    ended = forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--out", straight)
    assert "is complete already" in ended.stderr
    assert {path.name: path.stat().st_mtime_ns for path in straight.iterdir()} == before


def test_killed_again_and_again(
    straight: Path, teacher: Path, lines: Path, targets: Path, scratch: Path, forks: Forks
) -> None:
    """kill -9 at random moments, with --closest, which reads a second file along."""
    arguments = ["distill", teacher, *SETTINGS, "--src", lines, "--tgt", targets, "--closest", "3"]
    once, out = scratch / "once", scratch / "out"
    quiet(forks.qkv(*arguments, "--out", once))
    assert (once / "train.tgt").read_bytes() != (straight / "train.tgt").read_bytes()
    source, kills, began = random.Random(), 0, time.monotonic()
    while True:
        slowly = [str(word) for word in (*arguments, "--out", out)]
        child = forks.start("tests.support.translating:slowly", 4, 0.1, *slowly)
        end = time.monotonic() + source.uniform(0.1, 1.2 + 0.2 * kills)
        while time.monotonic() < end and (code := child.poll()) is None:
            time.sleep(0.01)
        if code is not None:
            assert code == 0, child.err.read_text()
            break
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        kills += 1
        assert time.monotonic() - began < 120
    assert kills
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in once.iterdir()
    }


def test_closest_takes_the_best_by_sentence_bleu(
    teacher: Path, lines: Path, targets: Path, scratch: Path, forks: Forks
) -> None:
    out = scratch / "out"
    quiet(forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--tgt", targets, "--closest", "3", "--out", out))
    bleu = sentence_bleu()
    every = Translator(teacher, "torch", SEARCH).translate(texts(lines), nbest=3)
    chosen = texts(out / "train.tgt")
    references = [reference.split() for reference in texts(targets)]
    for output, best, reference in zip(chosen, every, references, strict=True):
        scores = [bleu(one.text.split(), reference) for one in (best, *best.alternatives)]
        assert bleu(output.split(), reference) == max(scores)
        assert scores[0] < max(scores) or output == best.text
    assert chosen != [best.text for best in every]
    assert texts(out / "train.ref") == texts(targets)


def test_a_recipe_gives_what_training_would_take(teacher: Path, scratch: Path, forks: Forks) -> None:
    """Empty and long pairs are left out, held-out pairs stay real, and a recipe can read what comes out."""
    rows = [f"{src}\t{tgt}" for src, tgt in zip(sentences(40), sentences(40, seed=8), strict=True)]
    rows += ["\taa", "aa ab\t", f"{'aa ' * 30}\tab", rows[0].split("\t")[0] + "\tbb bb", "aa ac\tbb"]
    written(scratch / "pairs.tsv", "".join(row + "\n" for row in rows).encode())
    data = {"root": str(scratch), "train": {"kind": "tsv", "path": "none.tsv"}, "holdout": 5, "max_src_tokens": 20}
    recipe = write_recipe(scratch / "recipe.yaml", {"data": data, "text": {"shared": "whitespace"}})
    out = scratch / "out"
    found = quiet(forks.qkv("distill", teacher, *SETTINGS, "--data", recipe, "data.train.path=pairs.tsv", "--out", out))
    src, ref, tgt = (texts(out / name) for name in ("train.src", "train.ref", "train.tgt"))
    held = list(zip(texts(out / "dev.src"), texts(out / "dev.tgt"), strict=True))
    assert len(src) == len(ref) == len(tgt) == 42 - 5
    assert len(held) == 5
    assert {f"{one}\t{two}" for one, two in [*zip(src, ref, strict=True), *held]} == {*rows[:40], *rows[43:]}
    assert not {one for one, _ in held} & set(src)
    read = load_config(Recipe, written(scratch / "next.yaml", f"{found}text: {{shared: char}}\n".encode()))
    assert read.data.has_dev
    assert read.data.holdout is None
    # A dev set of its own is no business of ours.
    own = ("data.train.path=pairs.tsv", "data.holdout=null", "data.dev={kind: tsv, path: pairs.tsv}")
    found = quiet(forks.qkv("distill", teacher, *SETTINGS, "--data", recipe, *own, "--out", scratch / "own"))
    assert "dev:" not in found
    assert len(texts(scratch / "own" / "train.tgt")) == 42


def test_nothing_is_left_of_an_attempt_that_was_refused(
    straight: Path, teacher: Path, lines: Path, targets: Path, scratch: Path, forks: Forks
) -> None:
    few, out = written(scratch / "few", lines.read_bytes()[:200].rpartition(b"\n")[0] + b"\n"), scratch / "out"
    assert "has only" in refused(
        forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--tgt", few, "--out", out), 1
    )
    # The targets that were read before the complaint are not those of the next attempt.
    again = forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--closest", "2", "--out", out)
    assert "the targets are needed" in refused(again, 2)
    quiet(forks.qkv("distill", teacher, *SETTINGS, "--src", lines, "--out", out))
    other = forks.qkv("distill", teacher, *SETTINGS, "--src", few, "--tgt", few, "--out", out)
    assert "another input" in refused(other, 2)
    quiet(forks.qkv("distill", teacher, *SETTINGS, "--src", few, "--out", out, "--restart"))
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, MARKER, "train.src", "train.tgt"]


def test_two_at_a_time_do_not_disturb_each_other(teacher: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    few, out = written(scratch / "few", lines.read_bytes()[:200].rpartition(b"\n")[0] + b"\n"), scratch / "out"
    with DISTILLED.at_work_on(out):
        prepare_files(lines, None, out)
        second = forks.qkv("distill", teacher, *SETTINGS, "--src", few, "--out", out)
        assert "another process is at work" in refused(second, 2)
        distill(Translator(teacher, "torch", SEARCH), out, None, SilentReporter())
    assert texts(out / "train.src") == texts(lines)
    assert len(texts(out / "train.tgt")) == len(texts(lines))


def test_what_is_refused(straight: Path, teacher: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    def complaint(*arguments: object) -> str:
        return refused(forks.qkv("distill", teacher, *TORCH, *arguments), 2)

    assert "--data RECIPE, or --src FILE" in complaint()
    assert "give --tgt or --data" in complaint("--src", lines, "--closest", "2", "--out", scratch / "a")
    assert "cannot give 9 hypotheses" in complaint(
        "--src", lines, "--tgt", lines, "--closest", "9", "--out", scratch / "b"
    )
    assert "another search" in complaint("--src", lines, "--out", straight, "search.size=2")
    written(scratch / "a" / "mine", b"x")
    assert "holds other files already (mine)" in complaint("--src", lines, "--out", scratch / "a")
    assert "changes a recipe" in complaint("--src", lines, "data.root=x", "--out", scratch / "c")
    corpora = [{"kind": "tsv", "path": "a", "weight": 2}, {"kind": "tsv", "path": "a"}]
    recipe = write_recipe(scratch / "r.yaml", {"data": {"train": corpora}, "text": {"shared": "char"}})
    assert "distil one at a time" in complaint("--data", recipe, "--out", scratch / "d")
    assert json.loads((straight / MANIFEST).read_text())["search"]["size"] == 3
