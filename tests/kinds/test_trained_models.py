"""Every kind of model on every kind of data that it learns from: resumed bit for bit, the same in any batch."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qkv.data.tasks import task_of
from qkv.models.kinds import models
from qkv.models.saved.folder import load_model
from qkv.objectives.build import objective_kinds, objective_of
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.setup.inspect_data import inspect_data
from qkv.training.setup.prepare import open_prepared
from qkv.training.trainer import Trainer
from tests.support.stopping import StoppingReporter
from tests.support.tiny import assert_same

UPDATES, STOPPED = 6, 3
"""Both in the middle of an epoch."""
TEXTS = [" ".join(random.Random(n).choices(["aa", "ab", "ba", "bb"], k=2 + n % 5)) for n in range(40)]
ONE_STACK = {"d_ff": 16, "num_heads": 2, "num_layers": 1}
TWO_STACKS = {"d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": TWO_STACKS,
    "text_to_text": {**TWO_STACKS, "sentinels": 5},
    "recurrent": {"encoder_layers": 1, "decoder_layers": 1},
    "convolutional": {"encoder_layers": 1, "decoder_layers": 1},
    "bytenet": {"dilations": [1, 2]},
    "neural_gpu": {"rows": 1, "layers": 1},
    "memory_network": {"separator": "aa", "hops": 2},
    "causal_lm": ONE_STACK,
    "masked_lm": ONE_STACK,
    "classifier": {**ONE_STACK, "separator": "ab"},
    "tagger": ONE_STACK,
    "vision": {**ONE_STACK, "image_size": [4, 4], "channels": 1, "patch": 2, "classes": 2},
    "forecasting": {**ONE_STACK, "context": 8, "horizon": 2, "patch": 4, "stride": 2},
}
EVERY = [(kind, data) for kind in models.names() for data in models[kind].learns]
every_pairing = pytest.mark.parametrize(("kind", "data"), EVERY)


def tsv(target: Callable[[str], str]) -> Callable[[Path], dict[str, Any]]:
    def write(folder: Path) -> dict[str, Any]:
        (folder / "train").write_text("".join(f"{text}\t{target(text)}\n" for text in TEXTS), encoding="utf-8")
        return {"train": {"kind": "tsv", "path": "train"}, "holdout": 8}

    return write


def texts(folder: Path) -> dict[str, Any]:
    (folder / "train").write_text("\n".join(TEXTS), encoding="utf-8")
    return {"train": {"kind": "lines", "path": "train"}, "holdout": 8, "max_tokens": 16}


def images(folder: Path) -> dict[str, Any]:
    drawn = np.random.default_rng(1).integers(0, 256, (40, 4, 4)).astype(np.uint8)
    np.savez(folder / "train.npz", images=drawn, labels=np.array(["dark", "light"])[(drawn.mean((1, 2)) > 127) * 1])
    return {"train": {"kind": "npz", "path": "train.npz"}, "holdout": 8}


def series(folder: Path) -> dict[str, Any]:
    rows = [f"{math.sin(n / 3) + 0.01 * n:.6f},{math.cos(n / 5):.6f}\n" for n in range(40)]
    (folder / "train.csv").write_text("one,two\n" + "".join(rows), encoding="utf-8")
    return {"train": {"kind": "csv", "path": "train.csv"}, "holdout": 6}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "pairs": tsv(lambda text: text[::-1]),
    "labelled": tsv(lambda text: f"words-{len(text.split())}"),
    "tagged": tsv(lambda text: " ".join(f"begins-{word[0]}" for word in text.split())),
    "texts": texts,
    "images": images,
    "series": series,
}
TEXT: dict[str, dict[str, Any]] = {
    "pairs": {"shared": "whitespace"},
    "texts": {"shared": "whitespace"},
    "labelled": {"src": "whitespace", "tgt": "labels"},
    "tagged": {"src": "whitespace", "tgt": "whitespace"},
}


def recipe(kind: str, data: str, folder: Path, run: Path) -> Recipe:
    plan: dict[str, Any] = {
        "run": run,
        "data": {"kind": data, "root": folder, **DATA[data](folder)},
        "text": TEXT.get(data, {}),
        "batch": {"tokens": 48, "pairs": 7},
        "model": {"kind": kind, "d_model": 8, "dropout": 0.1, **MODELS[kind]},
        "schedule": {"kind": "linear", "peak": 1e-2, "warmup": 2},
        "training": {"stop_after": f"{UPDATES}u", "threads": 1},
        "validation": {"every": "4u", "samples": 0},
    }
    return Recipe.model_validate(plan)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Recipe]:
    """The recipe of a run that nobody stopped; trained once."""
    made = dict[tuple[str, str], Recipe]()

    def run_of(kind: str, data: str) -> Recipe:
        if (kind, data) not in made:
            folder = tmp_path_factory.mktemp(f"{kind}-{data}")
            made[kind, data] = recipe(kind, data, folder, folder / "straight")
            assert Trainer(made[kind, data]).train().finished
        return made[kind, data]

    return run_of


def test_every_registered_kind_is_tried() -> None:
    assert set(models.names()) == set(MODELS)
    assert {data for _, data in EVERY} == set(DATA)


@every_pairing
def test_a_resumed_run_is_the_one_that_was_never_stopped(
    kind: str, data: str, runs: Callable[[str, str], Recipe]
) -> None:
    straight = runs(kind, data)
    stopped = straight.model_copy(update={"run": straight.run.parent / "stopped"})
    assert not Trainer(stopped, StoppingReporter(STOPPED)).train().finished
    assert Trainer.resume(stopped.run).train().finished
    assert_same(stopped.run, straight.run)


@every_pairing
def test_the_loss_of_a_batch_is_that_of_its_examples(kind: str, data: str, runs: Callable[[str, str], Recipe]) -> None:
    """Whatever they are padded to, and with whichever others they are read."""
    plan = runs(kind, data)
    prepared = open_prepared(plan, RunFolder(plan.run))
    assert prepared.dev is not None
    task, one = task_of(plan.data), plan.batch.model_copy(update={"pairs": 1})
    objective = objective_of(plan.objective, plan.model, data, prepared.tokenizers, lambda: torch.ones(1))
    model = load_model(plan.run).model
    reports = []
    for batch in (plan.batch, one):
        stream = task.stream(prepared.dev, prepared.tokenizers, batch, seed=0)
        batches = [stream.batch(0, index) for index in range(len(stream.plan(0)))]
        assert sum(map(len, batches)) > 2
        assert (max(map(len, batches)) == 1) == (batch is one)
        with torch.no_grad():
            losses = [objective.validation_loss(model, each) for each in batches]
        reports.append((sum(float(each.nll) for each in losses), sum(float(each.weight) for each in losses)))
    weight = objective_kinds[plan.model.learns[data]].epoch_weight(plan.objective, plan.model, prepared.dev)
    assert reports[0][1] == reports[1][1] == weight, "what training.stop_after in tokens counts"
    assert reports[0][0] == pytest.approx(reports[1][0], rel=1e-5)


@pytest.mark.parametrize("data", sorted(DATA))
def test_data_are_looked_at_before_a_run(data: str, runs: Callable[[str, str], Recipe]) -> None:
    kind = next(kind for kind, own in EVERY if own == data)
    report = inspect_data(runs(kind, data), SilentTrainingReporter().counting)
    assert report.as_dict()
    shown = report.render()
    assert "train" in shown
    assert "dev" in shown
