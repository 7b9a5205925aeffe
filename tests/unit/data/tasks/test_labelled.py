"""`qkv data check` of labelled and tagged texts speaks of labels."""

from pathlib import Path
from typing import Any

from qkv.data.config import BatchConfig, data_kinds
from qkv.data.tasks import task_of
from qkv.data.tasks.base import CheckReport
from qkv.text import TextConfig

TRAIN = ["a b\tpet", "a c\tpet", "a b\tpet", "b c\twild", "c\tsmall pet"]
DEV = ["a b\tpet", "b c\tpet", "c c\tfish"]
TAGGED = ["the cat sees\tD N V", "the dog\tD N"]
NEW_TAG = ["the cat runs away\tD N V A"]


def checked(root: Path, kind: str, train: list[str], dev: list[str], **text: Any) -> CheckReport:
    for name, lines in (("train", train), ("dev", dev)):
        (root / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    parts = {name: {"kind": "tsv", "path": name} for name in ("train", "dev")}
    task = task_of(data_kinds[kind].model_validate({"root": root, **parts}))
    tokenizers = TextConfig.model_validate({"src": "whitespace", "tgt": "labels", **text}).train(
        lambda: task.parts()["train"].texts("src"), lambda: task.parts()["train"].texts("tgt")
    )
    stores = task.prepare(task.parts(), tokenizers, root / "data")
    return task.check(stores, tokenizers, BatchConfig())


def test_the_labels_of_texts(tmp_path: Path) -> None:
    report = checked(tmp_path, "labelled", TRAIN, DEV)
    said = report.with_advice(["do this"]).render()
    assert "train: 5 of 5 pairs kept\n  text tokens: min 2, " in said
    assert "  1 exact duplicates\n  3 labels of 5 texts: pet 3, wild 1, small pet 1\n" in said
    assert "  always pet would be right for 60.00% of the texts\n\ndev: 3 of 3 pairs kept\n" in said
    assert "  2 labels of 3 texts: pet 2, fish 1\n  always pet would be right for 66.67% of the texts\n" in said
    assert "  1 labels are not in train: fish 1\n" in said
    assert "dev and train: 1 of 3 texts of dev are in train, 2 with any label\n" in said
    assert "outputs:" not in said
    assert "x source" not in said
    assert said.endswith("\nadvice:\n  do this\n")
    found = report.as_dict()
    assert found["labels"]["dev"] == {"counts": {"pet": 2, "fish": 1}, "constant": 2 / 3, "new": {"fish": 1}}
    assert found["overlaps"] == {"dev": {"pairs": 1, "sources": 2, "total": 3}}
    assert "length_limit" not in found


def test_of_many_labels_the_most_frequent_and_the_rarest_are_named(tmp_path: Path) -> None:
    train = [f"text {number}\tlabel-{kind}" for kind in range(9) for number in range(12 - kind)]
    said = checked(tmp_path, "labelled", train, train[:1]).render()
    shown = "label-0 12, label-1 11, label-2 10, label-3 9, label-4 8, ..., label-8 4"
    assert f"  9 labels of 72 texts: {shown}\n" in said


def test_labels_are_counted_as_the_model_knows_them(tmp_path: Path) -> None:
    lower = {"kind": "labels", "normalize": {"lowercase": True}}
    report = checked(tmp_path, "labelled", ["a\tPet", "b\tpet"], ["c\tPET"], tgt=lower)
    assert report.as_dict()["labels"]["dev"] == {"counts": {"pet": 1}, "constant": 1.0, "new": {}}


def test_the_tags_of_words(tmp_path: Path) -> None:
    said = checked(tmp_path, "tagged", TAGGED, NEW_TAG, tgt="whitespace").render()
    assert "  3 labels of 5 words: D 2, N 2, V 1\n  always D would be right for 40.00% of the words\n" in said
    assert "  4 labels of 4 words: D 1, N 1, V 1, A 1\n  always D would be right for 25.00% of the words\n" in said
    assert "  1 labels are not in train: A 1\n" in said
