"""What `data check` and `train` say about a recipe that will disappoint, and that they are quiet about a good one."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.core.progress import Counting
from qkv.data.store import PairStore
from qkv.training.progress import SilentTrainingReporter
from qkv.training.setup.inspect_data import inspect_data
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe

SMALL = {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


def words(count: int, seed: int) -> list[str]:
    """Different ones for different seeds."""
    letters = random.Random(seed)
    found = {f"{chr(97 + seed)}{''.join(letters.choices('stuvwxyz', k=12))}" for _ in range(2 * count)}
    return sorted(found)[:count]


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """A good one: nothing to say."""
    for name, count, seed in (("train", 800, 1), ("dev", 60, 2)):
        lines = [f"{word}\t{word[::-1]}\n" for word in words(count, seed)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "data": {
            "root": str(tmp_path),
            "train": {"kind": "tsv", "path": "train.tsv"},
            "dev": {"kind": "tsv", "path": "dev.tsv"},
        },
        "text": {"shared": "char"},
        "batch": {"tokens": 512},
        "model": dict(SMALL),
        "schedule": {"kind": "constant", "peak": 1e-3, "warmup": 10},
        "training": {"stop_after": "20e", "threads": 1},
    }


def advice_on(recipe: dict[str, Any]) -> list[str]:
    return inspect_data(as_recipe(recipe), SilentTrainingReporter().counting).advice


def the_advice_on(recipe: dict[str, Any]) -> str:
    (sentence,) = advice_on(recipe)
    assert "\n" not in sentence
    return sentence


def test_nothing_to_say(recipe: dict[str, Any]) -> None:
    assert advice_on(recipe) == []


def test_three_dev_lines(recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("q\tq\nqq\tqq\nqqq\tqqq\n")
    sentence = the_advice_on(recipe)
    assert sentence.startswith("dev has only 3 pair(s), too few to choose the best model by")
    assert "data.holdout to 50" in sentence


def test_no_dev_data(recipe: dict[str, Any]) -> None:
    del recipe["data"]["dev"]
    assert "set data.holdout to 50" in the_advice_on(recipe)
    recipe["data"]["holdout"] = 3
    assert the_advice_on(recipe).startswith("only 3 pair(s) are held out")
    recipe["data"]["holdout"] = 50
    assert advice_on(recipe) == []


def test_a_dev_set_inside_train(recipe: dict[str, Any], tmp_path: Path) -> None:
    lines = (tmp_path / "train.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "dev.tsv").write_text("".join(lines[:60]))
    sentence = the_advice_on(recipe)
    assert sentence.startswith("60 of 60 pairs of dev are also in train")
    assert "data.train" in sentence


def test_train_is_read_once_for_the_overlap(recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the check and by training, which shows how far it is."""
    read: list[str] = []
    chunks = PairStore.chunks

    def count(self: PairStore, *size: int) -> Iterator[list[tuple[str, str]]]:
        read.append(self.folder.name)
        return chunks(self, *size)

    class Counted(SilentTrainingReporter):
        def counting(self, what: str) -> Counting:
            return lambda done, total: counted.setdefault(what, []).append((done, total))

    counted: dict[str, list[tuple[int, int | None]]] = {}
    monkeypatch.setattr(PairStore, "chunks", count)
    advice_on(recipe)
    # Each part on its own, then the two beside each other.
    assert sorted(read) == ["dev", "dev", "train", "train"]
    recipe["training"]["stop_after"] = "1u"
    Trainer(as_recipe(recipe), Counted()).train()
    assert counted["Comparing dev with train"] == [(800, 800)]


def test_sources_of_dev_inside_train(recipe: dict[str, Any], tmp_path: Path) -> None:
    sources = [line.split("\t")[0] for line in (tmp_path / "train.tsv").read_text().splitlines()]
    (tmp_path / "dev.tsv").write_text("".join(f"{source}\tt\n" for source in sources[:60]))
    assert the_advice_on(recipe).startswith("60 of 60 sources of dev are also in train, with other targets")


@pytest.mark.parametrize(
    ("dev", "sentence"), [("same", "texts of dev are also in train, so"), ("other", "sources of dev")]
)
def test_labelled_texts_are_compared_with_train_as_pairs_are(
    recipe: dict[str, Any], tmp_path: Path, dev: str, sentence: str
) -> None:
    lines = {"same": [f"{word}\tname\n" for word in words(800, 1)]}
    lines["other"] = [line.replace("name", "verb") for line in lines["same"]]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(lines["same"]))
    (tmp_path / "dev.tsv").write_text("".join(lines[dev][:60]))
    recipe["data"]["kind"] = "labelled"
    recipe["text"] = {"src": "char", "tgt": "labels"}
    recipe["model"] = {"kind": "classifier", "d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
    found = advice_on(recipe)
    assert any(each.startswith(f"60 of 60 {sentence}") for each in found)
    assert any("train.tsv:1 looks like names of columns" in each for each in found)


def test_a_warm_up_longer_than_the_run(recipe: dict[str, Any]) -> None:
    recipe["schedule"]["warmup"] = 4000
    sentence = the_advice_on(recipe)
    assert sentence.startswith("the warm-up of 4,000 updates is longer than the run of about 4")
    assert "schedule.warmup to 4" in sentence
    recipe["training"]["stop_after"] = "4000u"
    assert advice_on(recipe) == []
    recipe["training"]["stop_after"] = "2kt"
    assert any("warm-up" in sentence for sentence in advice_on(recipe))
    recipe["training"]["stop_after"] = "10m"
    assert advice_on(recipe) == []


def test_a_run_too_short_to_learn(recipe: dict[str, Any]) -> None:
    recipe["training"]["stop_after"] = "1e"
    assert the_advice_on(recipe).startswith("the run ends after about 2")
    recipe["training"] |= {"stop_after": "20e", "accumulate": 10}
    assert "training.stop_after" in the_advice_on(recipe)


def test_a_model_too_large_for_the_data(recipe: dict[str, Any]) -> None:
    """The default model, the paper's, is far too large for 800 words."""
    recipe["model"] = {}
    sentence = the_advice_on(recipe)
    assert "parameters for 22,400 training tokens" in sentence
    keys = [word.strip(",") for word in sentence.split() if word.startswith("model.")]
    assert "model.d_model=64" in keys
    recipe["model"] = {key.removeprefix("model."): int(value) for key, value in (word.split("=") for word in keys)}
    assert advice_on(recipe) == []


def test_a_header(recipe: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("source\ttarget\n" + path.read_text())
    sentence = the_advice_on(recipe)
    assert sentence.startswith(f"{path}:1 looks like names of columns")
    assert "data.train.header" in sentence
    recipe["data"]["train"]["header"] = True
    assert advice_on(recipe) == []


def test_training_says_the_same(recipe: dict[str, Any], tmp_path: Path) -> None:
    class Listener(SilentTrainingReporter):
        def __init__(self) -> None:
            self.said: list[str] = []

        def say(self, sentence: str) -> None:
            self.said.append(sentence)

    (tmp_path / "dev.tsv").write_text("q\tq\n")
    recipe["training"]["stop_after"] = "1u"
    listener = Listener()
    Trainer(as_recipe(recipe), listener).train()
    expected = advice_on(recipe)
    assert len(expected) == 2, "few dev pairs, and a warm-up that is too long"
    assert [line.removeprefix("advice: ") for line in listener.said if line.startswith("advice: ")] == expected
    again = Listener()
    Trainer.resume(tmp_path / "run", ["training.stop_after=2u"], again).train()
    assert not any(line.startswith("advice: ") for line in again.said)
