"""A classifier and a tagger are measured on the test data of their runs and on other data."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from tests.support.commands import quiet
from tests.support.forks import Forks
from tests.support.language import SENTENCES

TAGS = {"the": "D", "sees": "V", "likes": "V"}


def label_of(text: str) -> str:
    return {"cat": "small pet", "dog": "large pet", "bird": "wild"}[text.split()[2]]


def tags_of(text: str) -> str:
    return " ".join(TAGS.get(word, "N") for word in text.split())


def write(path: Path, pairs: dict[str, str]) -> Path:
    path.write_text("".join(f"{text}\t{label}\n" for text, label in pairs.items()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("labels")
    for kind, target in (("labelled", label_of), ("tagged", tags_of)):
        write(made / f"{kind}.tsv", {text: target(text) for text in SENTENCES})
        write(made / f"{kind}.test.tsv", {text: target(text) for text in SENTENCES[:20]})
    return made


def settings(folder: Path, run: Path, kind: str, data: str, updates: int) -> dict[str, Any]:
    parts = {name: {"kind": "tsv", "path": path} for name, path in
             (("train", f"{data}.tsv"), ("test", f"{data}.test.tsv"))}  # fmt: skip
    return {
        "run": str(run),
        "data": {"kind": data, "root": str(folder), **parts, "holdout": 8},
        "text": {"src": "whitespace", "tgt": "labels" if data == "labelled" else "whitespace"},
        "batch": {"tokens": 512},
        "model": {"kind": kind, "d_model": 32, "d_ff": 64, "num_heads": 4, "num_layers": 1, "dropout": 0},
        "schedule": {"kind": "linear", "peak": 1e-2, "warmup": 10},
        "training": {"stop_after": f"{updates}u", "threads": 1},
        "validation": {"every": "50u", "metrics": ["exact"], "best": "exact"},
    }


@pytest.fixture(scope="module")
def classifier(folder: Path, in_memory: Path) -> Path:
    run = in_memory / "classifier"
    assert Trainer(Recipe.model_validate(settings(folder, run, "classifier", "labelled", 100))).train().finished
    return run


@pytest.fixture(scope="module")
def tagger(folder: Path, in_memory: Path) -> Path:
    run = in_memory / "tagger"
    assert Trainer(Recipe.model_validate(settings(folder, run, "tagger", "tagged", 100))).train().finished
    return run


def test_a_classifier_is_measured(classifier: Path, folder: Path, forks: Forks) -> None:
    shown = json.loads(quiet(forks.qkv("evaluate", classifier, "--json")))
    assert list(shown) == ["test", "dev"]
    test = shown["test"]
    assert (test["texts"], test["labels_of"], test["accuracy"], test["low"]) == (20, "texts", 100, 100)
    assert test["said"] == {label: {label: n} for label, n in Counter(map(label_of, SENTENCES[:20])).items()}
    assert shown["dev"]["texts"] == 8
    table = quiet(forks.qkv("evaluate", classifier, "--split", "test"))
    assert table.startswith("test: 20 texts, 100.00 ± 0.00 % right\n")
    assert "mistaken" in table
    for option in ("--tsv", "--data"):
        given = quiet(forks.qkv("evaluate", classifier, option, folder / "labelled.test.tsv", "--json"))
        assert json.loads(given) == test


def test_wrong_labels_and_new_ones_are_counted(classifier: Path, scratch: Path, forks: Forks) -> None:
    # All of them learned: what a model says of other texts depends on the processor.
    birds = [text for text in SENTENCES if label_of(text) == "wild"]
    cat = next(text for text in SENTENCES if label_of(text) == "small pet")
    path = write(scratch / "a.tsv", {birds[0]: "wild", birds[1]: "wild", birds[2]: "tame", cat: "wild", "": "wild"})
    shown = json.loads(quiet(forks.qkv("evaluate", classifier, "--tsv", path, "--json")))
    assert shown["said"] == {"wild": {"wild": 2, "small pet": 1}, "tame": {"wild": 1}}
    assert (shown["texts"], shown["accuracy"]) == (4, 50)
    assert shown["low"] < 50 < shown["high"]
    table = quiet(forks.qkv("evaluate", classifier, "--tsv", path)).splitlines()
    assert table[2].split() == ["wild", "3", "66.7", "small", "pet", "(1)"]


def test_a_first_line_that_may_be_a_header_is_pointed_out(classifier: Path, scratch: Path, forks: Forks) -> None:
    rows = [f"{text}\t{label_of(text)}" for text in SENTENCES[:2]]
    path = scratch / "h.tsv"
    for lines, remarked in ((["text\tlabel", *rows], True), (rows, False)):
        path.write_text("".join(f"{line}\n" for line in lines))
        ended = forks.qkv("evaluate", classifier, "--tsv", path)
        assert ended.code == 0, ended.stderr
        assert (f"{path}:1 looks like names of columns" in ended.stderr) == remarked


def test_the_score_in_training_is_that_of_evaluate(folder: Path, in_memory: Path, forks: Forks) -> None:
    """Also where labels are normalised: the model knows them in lower case."""
    write(folder / "capitals.tsv", {text: label_of(text).title() for text in SENTENCES})
    recipe = settings(folder, in_memory / "capitals", "classifier", "labelled", 50)
    recipe["data"] |= {"train": {"kind": "tsv", "path": "capitals.tsv"}, "test": None}
    recipe["text"]["tgt"] = {"kind": "labels", "normalize": {"lowercase": True}}
    trained = Trainer(Recipe.model_validate(recipe)).train().scores["exact"]
    shown = json.loads(quiet(forks.qkv("evaluate", in_memory / "capitals", "--json")))["dev"]
    assert shown["accuracy"] == trained > 50


def test_a_tagger_is_measured_by_words(tagger: Path, scratch: Path, forks: Forks) -> None:
    shown = json.loads(quiet(forks.qkv("evaluate", tagger, "--json", "--split", "test")))["test"]
    assert (shown["texts"], shown["labels_of"]) == (20, "words")
    assert (shown["accuracy"], shown["exact"]) == (100, 100)
    # Learned, as the scores above say: what a model says of other texts depends on the processor.
    right, wrong = SENTENCES[:2]
    path = write(scratch / "a.tsv", {right: tags_of(right), wrong: tags_of(wrong).replace("V", "N")})
    words = len(right.split()) + len(wrong.split())
    table = quiet(forks.qkv("evaluate", tagger, "--tsv", path))
    assert table.startswith(f"{words} words, {100 * (words - 1) / words:.2f} ± ")
    assert "; 2 whole texts, 50.00 ± " in table.splitlines()[0]


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("the cat\tD\n", (), "a.tsv:1: has 2 words and 1 tags; give one tag for each word"),
        ("\t\n", (), "a.tsv: holds no text with a label; give a file with at least one"),
        (
            "the\tD\n",
            ("--metrics", "bleu"),
            "--metrics: only for models that write texts, not for tagger; leave it out",
        ),
        ("the\tD\n", ("--split", "dev"), "--split: chooses from a run's own data, but other data is given"),
        ("the\tD\n", ("--data", "a.tsv"), "--data and --tsv hold both sides: give one of them alone"),
    ],
)
def test_what_is_wrong_is_said(
    tagger: Path, scratch: Path, forks: Forks, content: str, options: tuple[str, ...], sentence: str
) -> None:
    (scratch / "a.tsv").write_text(content, encoding="utf-8")
    ended = forks.qkv("evaluate", tagger, "--tsv", scratch / "a.tsv", *options)
    assert ended.code in (1, 2)
    assert sentence in ended.complaint
