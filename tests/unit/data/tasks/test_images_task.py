"""Images as the data of a recipe: images held out, sizes that must fit, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv.core.errors import ConfigError, UsageError
from qkv.data.config import BatchConfig
from qkv.data.tasks import task_of
from qkv.text import TextConfig
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.setup.inspect_data import inspect_data
from qkv.training.trainer import Trainer

SIZES = {"image_size": [4, 6], "channels": 1, "patch": 2, "classes": 3, "d_model": 8, "num_heads": 2}
TOKENIZERS = TextConfig().train(lambda: [], lambda: [])


def recipe(root: Path, data: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    given = {"kind": "images", "root": str(root), "train": {"kind": "npz", "path": "a.npz"}, **(data or {})}
    return Recipe.model_validate({"data": given, "model": {"kind": "vision", **SIZES}, **changes})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 6), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 3)
    return tmp_path


@pytest.mark.parametrize(
    ("data", "changes", "sentence"),
    [
        ({}, {"model": {"kind": "vision", **SIZES, "patch": 4}}, "4 x 6 pixels cannot be cut into patches of 4 x 4"),
        ({}, {"model": {"kind": "vision", **SIZES, "num_heads": 3}}, "num_heads (3) must divide d_model (8)"),
        ({}, {"text": {"tgt": "char"}}, "text: data.kind images takes nothing; tgt was given"),
        ({}, {"objective": {"smoothing": "others_but_pad"}}, "classes have no padding; use others"),
        ({}, {"objective": {"glancing": {}}}, "objective.glancing is not for model.kind vision"),
        ({"holdout": 3, "dev": {"kind": "npz", "path": "a.npz"}}, {}, "give dev or holdout, not both"),
    ],
)
def test_wrong_combinations_are_refused(
    root: Path, data: dict[str, Any], changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe(root, data, **changes)
    assert sentence in str(caught.value)


def test_images_are_held_out_once(root: Path) -> None:
    task = task_of(recipe(root, {"holdout": 5}).data)
    stores = task.prepare(task.parts(), TOKENIZERS, root / "data")
    assert (len(stores["train"]), len(stores["dev"])) == (15, 5)
    seen = {bytes(image) for image in stores["train"].pixels} | {bytes(image) for image in stores["dev"].pixels}
    assert len(seen) == 20
    again = task_of(recipe(root, {"holdout": 5}, seed=7).data)
    assert again.prepare(again.parts(), TOKENIZERS, root / "other")["dev"].fingerprint == stores["dev"].fingerprint
    assert task.frequencies(stores["train"], TOKENIZERS).sum() == 15
    with pytest.raises(UsageError, match=r"holdout is 20, but data\.train has 20 images; leave some to train on"):
        task_of(recipe(root, {"holdout": 20}).data).parts()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("classes", 4, "model.classes is 4, but the images of data.train have 3; set model.classes to 3"),
        ("channels", 3, "model.channels is 3, but the images of data.train have 1"),
        ("image_size", [6, 4], "model.image_size is [6, 4], but the images of data.train have [4, 6]"),
    ],
)
def test_sizes_that_do_not_fit_the_images_are_said(root: Path, key: str, value: object, sentence: str) -> None:
    found = recipe(root, model={"kind": "vision", **SIZES, key: value})
    task = task_of(found.data)
    train = task.prepare(task.parts(), TOKENIZERS, root / "data")["train"]
    assert sentence in (found.model.misfit(train, None) or "")
    assert recipe(root).model.misfit(train, train) is None


def test_dev_images_that_patches_do_not_divide_are_refused(root: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", images=np.zeros((3, 5, 5), dtype=np.uint8), labels=np.arange(3))
    given = recipe(root, {"dev": {"kind": "npz", "path": "odd.npz"}}, run=str(tmp_path / "run"))
    with pytest.raises(UsageError, match=r"data\.dev has images of 5 x 5 pixels, 1 channel, but the model reads those"):
        Trainer(given, SilentTrainingReporter()).train()


def test_a_batch_has_at_most_as_many_as_batch_pairs_says(root: Path) -> None:
    task, tokenizers = task_of(recipe(root).data), TOKENIZERS
    train = task.prepare(task.parts(), tokenizers, root / "data")["train"]
    few = BatchConfig(tokens=64, pairs=4)
    stream: Any = task.stream(train, tokenizers, few, seed=1)
    sizes = [len(stream.batch(0, index)) for index in range(len(stream.plan(0)))]
    assert (sum(sizes), max(sizes)) == (20, 4)
    assert task.batches(train, few) == 20 / 4


def test_images_that_train_has_too_are_counted_by_their_pixels(root: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 6), dtype=np.uint8)
    images[[18, 19]] = images[0]
    np.savez(root / "a.npz", images=images, labels=np.arange(20) % 3)
    # Of these four, three are in train, one of them with another label.
    np.savez(root / "b.npz", images=np.concatenate([images[:3], 255 - images[:1]]), labels=np.array([1, 1, 2, 0]))
    data = {"dev": {"kind": "npz", "path": "b.npz"}}
    task = task_of(recipe(root, data).data)
    stores = task.prepare(task.parts(), TOKENIZERS, root / "data")
    report = task.check(stores, TOKENIZERS, BatchConfig())
    assert report.as_dict()["duplicates"] == {"train": 2, "dev": 0}
    assert report.as_dict()["overlaps"] == {"dev": {"pairs": 3, "sources": 3, "total": 4}}
    assert task.overlap(stores["dev"], stores["train"]) == report.overlaps["dev"]
    said = report.with_advice(["do this"]).render()
    assert "train: 20 images of 3 classes\n  0: 7\n  1: 7\n  2: 6\n  2 exact duplicates\n" in said
    assert "\n\ndev and train: 3 of 4 images of dev are in train\n\nadvice:\n  do this\n" in said


def test_images_of_dev_in_train_are_pointed_out(root: Path) -> None:
    inspected = inspect_data(recipe(root, {"dev": {"kind": "npz", "path": "a.npz"}}), SilentTrainingReporter().counting)
    assert inspected.advice[0] == (
        "20 of 20 images of dev are also in train, so the scores will be too good: take them out of data.train, or "
        "leave out data.dev and set data.holdout"
    )
    held_out = inspect_data(recipe(root, {"holdout": 5}), SilentTrainingReporter().counting)
    assert held_out.overlaps["dev"].pairs == 0
    assert not any("also in train" in sentence for sentence in held_out.advice)
