"""A task whose outputs are much longer than their sources, and a model that has learnt it."""

from pathlib import Path
from typing import Any

import pytest

from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, changed, plain

LONG = 24
"""Tokens of a target; its source has one, so 2 x source + 10 stops it at 14."""
SOURCES = ("red", "blue", "green", "grey")


def write_long(folder: Path) -> Path:
    """One word each, and what belongs to it: twenty-four words in a row."""
    folder.mkdir(exist_ok=True)
    for name, times in (("train", 8), ("dev", 1), ("test", 1)):
        src = list(SOURCES) * times
        tgt = [" ".join(f"{word[:2]}{place}" for place in range(LONG)) for word in src]
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in src), encoding="utf-8")
        (folder / f"{name}.tgt").write_text("".join(f"{line}\n" for line in tgt), encoding="utf-8")
    return folder


def recipe_of(data: Path, run: Path, updates: int = 60, **validation: Any) -> dict[str, Any]:
    return changed(
        plain(data, run, updates),
        text={"shared": "whitespace"},
        batch={"tokens": 400},
        model={"d_model": 32, "dropout": 0.0},
        schedule={"peak": 1e-2},
        training={"save_every": "1e"},
        validation={"every": f"{updates}u", "metrics": ["exact"], "best": "exact", **validation},
    )


@pytest.fixture(scope="session")
def long_data(memory_root: Path) -> Path:
    return write_long(memory_root / "long")


@pytest.fixture(scope="session")
def long_run(memory_root: Path, long_data: Path) -> Path:
    """A model that has learnt all of it."""
    Trainer(as_recipe(recipe_of(long_data, memory_root / "long-run"))).train()
    return memory_root / "long-run"
