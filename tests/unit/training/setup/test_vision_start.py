"""A Vision Transformer starts from one of another image size, or with other classes: what it takes, what is new."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from qkv.core.errors import CorruptFolder
from qkv.functional.patches.images import interpolate_positions
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.saved.weights import named_weights
from qkv.text import TextConfig
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.session import make_loop
from qkv.training.setup.prepare import prepare
from qkv.training.team import Team
from qkv.training.trainer import Trainer
from tests.support.stopping import StoppingReporter
from tests.support.tiny import final_hashes

NAMES = ["ant", "bee", "cat"]
POSITIONS, HEAD = "classifier.embedding.positions", "classifier.head."


def recipe(
    folder: Path, size: tuple[int, int] = (8, 12), names: Sequence[str] = NAMES, model: dict[str, Any] | None = None
) -> Recipe:
    """That of a run on images of noise."""
    images = np.random.default_rng(0).integers(0, 256, (24, *size), dtype=np.uint8)
    labels = [names[row % len(names)] for row in range(len(images))]
    folder.mkdir(exist_ok=True)
    np.savez(folder / "train.npz", images=images, labels=np.array(labels))
    sizes = {"image_size": size, "channels": 1, "patch": 2, "classes": len(names), "d_model": 8, "d_ff": 16}
    return Recipe.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"kind": "images", "root": str(folder), "train": {"kind": "npz", "path": "train.npz"}},
            "batch": {"tokens": 5},
            "start_from": str(folder.parent / "start"),
            "model": {"kind": "vision", **sizes, "num_layers": 1, "num_heads": 2, "dropout": 0.1, **(model or {})},
            "training": {"stop_after": "9u", "threads": 1},
        }
    )


@pytest.fixture
def start(scratch: Path) -> SavedModel:
    """A model of 4 x 4 patches; even its new head has learned something."""
    config = recipe(scratch / "first", (8, 8)).model
    text = TextConfig()
    tokenizers = text.train(lambda: [], lambda: [])
    torch.manual_seed(0)
    model = config.build(tokenizers)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    saved = SavedModel(model, tokenizers, SavedConfig(model=config, text=text, labels=NAMES))
    save_model(scratch / "start", saved)
    return saved


def started(recipe: Recipe) -> tuple[dict[str, Tensor], list[str]]:
    """The weights before the first update, and what was said."""
    run, said = RunFolder(recipe.run), list[str]()
    run.create()
    prepared = prepare(recipe, run, SilentTrainingReporter().counting)
    return named_weights(make_loop(recipe, prepared, None, Team(), said.append).learner.model), said


@pytest.mark.parametrize("size", [(8, 12), (4, 16)], ids=["more", "as_many"])
@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_positions_of_another_size_are_interpolated_and_the_rest_is_copied(
    start: SavedModel, scratch: Path, pooling: str, size: tuple[int, int]
) -> None:
    if pooling == "mean":
        _save_without_class_token(start, scratch)
    before = int(pooling == "class_token")
    theirs = named_weights(load_model(scratch / "start").model)
    weights, said = started(recipe(scratch / "next", size, model={"pooling": pooling}))
    grid = size[0] // 2, size[1] // 2
    wanted = interpolate_positions(theirs[POSITIONS][before:], (4, 4), grid)
    assert torch.equal(weights[POSITIONS][before:], wanted)
    assert torch.equal(weights[POSITIONS][:before], theirs[POSITIONS][:before])
    assert len(weights[POSITIONS]) == grid[0] * grid[1] + before
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs if name != POSITIONS)
    assert said == []


def _save_without_class_token(start: SavedModel, scratch: Path) -> None:
    config = recipe(scratch / "first", (8, 8), model={"pooling": "mean"}).model
    model = config.build(start.tokenizers)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    save_model(scratch / "start", replace(start, model=model, config=start.config.model_copy(update={"model": config})))


@pytest.mark.parametrize("size", [(8, 8), (8, 12)])
@pytest.mark.parametrize("names", [["ant", "bee"], ["ant", "bee", "dog"], ["ant", "bee", "cat", "dog"]])
def test_other_classes_get_a_new_head(
    start: SavedModel, scratch: Path, names: list[str], size: tuple[int, int]
) -> None:
    weights, said = started(recipe(scratch / "next", size, names))
    assert torch.equal(weights[f"{HEAD}weight"], torch.zeros(len(names), 8))
    assert torch.equal(weights[f"{HEAD}bias"], torch.zeros(len(names)))
    theirs = named_weights(start.model)
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs if name not in (POSITIONS, *_heads()))
    assert said == [f"start_from {scratch / 'start'}: has other classes, so the head is initialised from scratch"]


def test_the_same_classes_in_another_order_keep_their_rows(start: SavedModel, scratch: Path) -> None:
    """Those of an imported model are not in alphabetical order."""
    order = [2, 0, 1]
    labels = [NAMES[number] for number in order]
    save_model(scratch / "start", replace(start, config=start.config.model_copy(update={"labels": labels})))
    weights, said = started(recipe(scratch / "next", (8, 8)))
    for name in _heads():
        assert torch.equal(weights[name][order], named_weights(start.model)[name])
    assert said == []


def _heads() -> tuple[str, str]:
    return f"{HEAD}weight", f"{HEAD}bias"


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"d_model": 12}, "class_token"), ({"patch": 4}, "project.weight"), ({"d_ff": 8}, "inner.weight")],
)
def test_other_sizes_of_the_model_are_still_refused(
    start: SavedModel, scratch: Path, changes: dict[str, int], name: str
) -> None:
    with pytest.raises(CorruptFolder, match=rf"{name} has shape .*; the weights belong to another model"):
        started(recipe(scratch / "next", (8, 12), model=changes))


class Listener(SilentTrainingReporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def test_a_run_that_started_so_resumes_bit_for_bit(start: SavedModel, scratch: Path) -> None:
    listener = Listener()
    Trainer(recipe(scratch / "straight", (8, 12), NAMES[:2]), listener).train()
    assert sum("the head is initialised from scratch" in sentence for sentence in listener.said) == 1
    assert not Trainer(recipe(scratch / "stopped", (8, 12), NAMES[:2]), StoppingReporter(4)).train().finished
    Trainer.resume(scratch / "stopped" / "run").train()
    assert final_hashes(scratch / "stopped" / "run") == final_hashes(scratch / "straight" / "run")
