"""A forecasting model learns two noisy waves, is measured, asked and resumed, and is refused by other verbs."""

import csv
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from tests.support.commands import quiet
from tests.support.forks import Forks

UPDATES = 120


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two columns of different size, each a wave of its own length with a line and noise."""
    generator = random.Random(3)
    rows = [
        [
            t,
            50 + 0.05 * t + 5 * math.sin(t / 3) + generator.gauss(0, 0.3),
            1e3 * math.cos(t / 2) + generator.gauss(0, 50),
        ]
        for t in range(320)
    ]
    path = tmp_path_factory.mktemp("series") / "waves.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["time", "level", "current"], *rows])
    return path


def settings(table: Path, run: Path, updates: int) -> dict[str, Any]:
    source = {"kind": "csv", "path": str(table)}
    parts = {"train": {**source, "stop": 0.7}, "dev": {**source, "start": 0.7, "stop": 0.85}}
    return {
        "run": str(run),
        "data": {"kind": "series", "period": 12, **parts, "test": {**source, "start": 0.85}},
        "batch": {"tokens": 32},
        "model": {
            "kind": "forecasting", "context": 24, "horizon": 8, "patch": 8, "stride": 4, "d_model": 16, "d_ff": 32,
            "num_layers": 1, "num_heads": 2, "dropout": 0.1,
        },
        "schedule": {"kind": "linear", "peak": 5e-3, "warmup": 10},
        "training": {"stop_after": f"{updates}u", "threads": 1},
        "validation": {"every": "20u"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(table: Path, in_memory: Path) -> Path:
    result = Trainer(Recipe.model_validate(settings(table, in_memory / "waves", UPDATES))).train()
    assert result.finished
    assert set(result.scores) == {"loss"}, "a squared error has no perplexity"
    return in_memory / "waves"


def test_it_beats_forecasts_that_need_no_network(run: Path, forks: Forks) -> None:
    shown = json.loads(quiet(forks.qkv("evaluate", run, "--json")))
    assert set(shown) == {"test", "dev"}
    errors = shown["test"]["errors"]
    assert set(errors) == {"forecasting", "last value", "last season (12)", "linear regression"}
    assert errors["forecasting"]["mase"] < 0.6 * errors["last season (12)"]["mase"]
    assert errors["forecasting"]["mase"] < 0.4 * errors["last value"]["mase"]
    assert "forecast" in quiet(forks.qkv("evaluate", run, "--split", "dev"))


def test_other_data_and_forecasts_as_a_table(run: Path, table: Path, forks: Forks) -> None:
    given = f"{{kind: csv, path: {table}, columns: [current], start: 0.9}}"
    shown = json.loads(quiet(forks.qkv("evaluate", run, "--json", "--data", given)))
    assert shown["windows"] == 32 - 8 + 1
    rows = list(csv.reader(io.StringIO(quiet(forks.qkv("forecast", run, "--data", table)))))
    assert rows[0] == ["step", "level", "current"]
    assert [row[0] for row in rows[1:]] == [str(step) for step in range(1, 9)]
    ahead = json.loads(quiet(forks.qkv("forecast", run, "--data", given.replace(", start: 0.9", ""), "--json")))
    assert ahead["current"] == pytest.approx([float(row[2]) for row in rows[1:]], rel=1e-4)


def test_data_are_looked_at_before(table: Path, scratch: Path, forks: Forks) -> None:
    path = scratch / "recipe.yaml"
    path.write_text(json.dumps(settings(table, scratch / "run", 5)))
    assert "test: 2 series, 82 windows" in quiet(forks.qkv("data", "check", path))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("translate",), "is a model of the kind forecasting: qkv forecast MODEL continues series"),
        (("tune",), "is a model of the kind forecasting"),
        (("evaluate", "--beam", "3"), "--beam: only for models that write texts, not for forecasting; leave it out"),
        (("forecast", "--data", "series.txt"), "the name does not say what kind of file it is"),
        (("export", "--to", "ctranslate2", "--out", "fast"), "CTranslate2 has no form of model.kind forecasting"),
    ],
)
def test_what_does_not_apply_is_refused_by_name(
    run: Path, forks: Forks, command: tuple[str, ...], sentence: str
) -> None:
    ended = forks.qkv(command[0], run, *command[1:])
    assert ended.code in (1, 2)
    assert sentence in ended.complaint
