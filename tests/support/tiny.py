"""The smallest run that has everything: data, recipe, and what to compare of two runs."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qkv.config.load import validate
from qkv.core.files import sha256_of
from qkv.core.temporary import is_unique_name
from qkv.training.recipe import Recipe
from qkv.training.run.checkpoint import OPTIMIZER, list_checkpoints
from qkv.training.run.folder import read_metrics

MODEL = {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1}


def write_pairs(folder: Path, name: str, count: int, seed: int) -> None:
    """NAME.src and NAME.tgt: words of a few letters and their reversal; NAME.align links them."""
    random_words = random.Random(seed)
    src = ["".join(random_words.choices("abcdefgh", k=random_words.randint(1, 9))) for _ in range(count)]
    (folder / f"{name}.src").write_text("".join(word + "\n" for word in src), encoding="utf-8")
    (folder / f"{name}.tgt").write_text("".join(word[::-1] + "\n" for word in src), encoding="utf-8")
    (folder / f"{name}.align").write_text("0-0\n" * count, encoding="utf-8")


def write_data(folder: Path) -> Path:
    """train, dev and test files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", 60, 1), ("dev", 12, 2), ("test", 5, 3)):
        write_pairs(folder, name, count, seed)
    return folder


def plain(data: Path, run: Path, updates: int = 12) -> dict[str, Any]:
    """A recipe with nothing special in it: six batches an epoch, validation and checkpoint every four updates."""
    corpus = {name: {"kind": "text", "src": f"{name}.src", "tgt": f"{name}.tgt"} for name in ("train", "dev")}
    return {
        "run": str(run),
        "data": {"root": str(data), **corpus},
        "text": {"shared": "char"},
        "batch": {"tokens": 96},
        "model": dict(MODEL),
        "schedule": {"kind": "constant", "peak": 3e-3},
        "training": {"stop_after": f"{updates}u", "threads": 1, "save_every": "4u"},
        "validation": {"every": "4u", "samples": 2},
    }


def everything(data: Path, run: Path, updates: int = 12) -> dict[str, Any]:
    """The same with all that draws random numbers or remembers something from update to update."""
    recipe = plain(data, run, updates)
    pieces = {"kind": "sentencepiece", "model": "unigram", "vocab_size": 40, "byte_fallback": False, "sampling": 0.3}
    recipe["text"] = {"shared": pieces}
    recipe["model"] |= {"attention_dropout": 0.1, "feed_forward_dropout": 0.1}
    noise = [{"kind": kind, "rate": 0.1, "warmup": 5} for kind in ("drop", "replace", "mask")]
    recipe["data"]["train"]["alignments"] = "train.align"
    attention = [{"kind": "guided", "heads": [1], "warmup": 3}, {"kind": "alignments", "until": 8}]
    recipe["objective"] = {"noise": noise, "consistency": "simcut", "attention": attention}
    recipe["objective"]["scheduled_sampling"] = {
        "kind": "sample",
        "gold": {"kind": "linear", "updates": 20, "after": 2},
    }
    recipe["schedule"] = {"kind": "inverse_sqrt", "peak": 3e-3, "warmup": 5}
    recipe["optimizer"] = {"weight_decay": 0.01}
    recipe["training"] |= {"accumulate": 2, "ema": 0.9, "save_every": "3u"}
    recipe["validation"] |= {"metrics": ["exact"], "best": "exact"}
    return recipe


def changed(recipe: dict[str, Any], **groups: dict[str, Any]) -> dict[str, Any]:
    """The recipe with keys of its groups replaced."""
    return recipe | {group: recipe.get(group, {}) | keys for group, keys in groups.items()}


def as_recipe(recipe: dict[str, Any]) -> Recipe:
    return validate(Recipe, recipe, "test")


def write_recipe(path: Path, recipe: dict[str, Any]) -> Path:
    """JSON is YAML."""
    path.write_text(json.dumps(recipe, indent=1), encoding="utf-8")
    return path


def updates_of(run: Path) -> list[tuple[Any, ...]]:
    """(update, loss, nll, gradient norm, its norm by layer) of every update of metrics.jsonl, to the last bit."""
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "loss" in line and "update" in line]
    keys = ("loss", "nll", "grad_norm")
    return [(line["update"], *(float(line[key]).hex() for key in keys), line.get("grad_norms")) for line in lines]


def validations_of(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if "validation" in line]


def final_hashes(run: Path) -> dict[str, str]:
    """SHA-256 of the tensors of the last checkpoint and of the best model."""
    last = list_checkpoints(run / "checkpoints")[-1]
    files = [last / "model.safetensors", last / OPTIMIZER, run / "best" / "model.safetensors"]
    return {str(path.relative_to(run)): sha256_of(path) for path in files}


def attention_files(run: Path) -> dict[str, bytes]:
    """The cross-attention of dev pairs at each validation."""
    return {path.name: path.read_bytes() for path in (run / "attention").glob("*")}


def assert_same(run: Path, straight: Path) -> None:
    """Bit for bit the same updates, validations, tensors; nothing left over."""
    assert updates_of(run) == updates_of(straight)
    assert validations_of(run) == validations_of(straight)
    assert final_hashes(run) == final_hashes(straight)
    assert attention_files(run) == attention_files(straight)
    assert leftovers(run) == []


def leftovers(run: Path) -> list[Path]:
    return [path for path in run.rglob("*") if is_unique_name(path.name)]


def lines_of(run: Path) -> int:
    """How many lines metrics.jsonl has; none before it is there."""
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def more_lines(run: Path) -> Callable[[], bool]:
    """Whether there is a line more than now."""
    now = lines_of(run)
    return lambda: lines_of(run) > now
