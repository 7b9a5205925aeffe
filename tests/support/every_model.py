"""A small recipe for every kind of model on every kind of data that it learns from."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qkv.models.kinds import models
from qkv.training.recipe import Recipe

UPDATES = 6
"""In the middle of an epoch."""
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
