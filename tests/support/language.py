"""Small language models and their data."""

from pathlib import Path
from typing import Any

from qkv.text import TextConfig, TokenizerPair
from qkv.training.recipe import Recipe

SENTENCES = [
    f"the {size} {animal} {verb} the {place}"
    for size in ("big", "small", "red")
    for animal in ("cat", "dog", "bird")
    for verb in ("sees", "likes")
    for place in ("tree", "house", "river")
]
TEXT = TextConfig(shared={"kind": "whitespace"})


def words() -> TokenizerPair:
    """Tokenizers of the words of `SENTENCES`."""
    return TEXT.train(lambda: SENTENCES, lambda: [])


def texts_recipe(folder: Path, model: dict[str, Any], **changes: Any) -> Recipe:
    """A recipe that learns from a file of `SENTENCES`."""
    (folder / "texts.txt").write_text("\n".join(SENTENCES * 4) + "\n", encoding="utf-8")
    plan: dict[str, Any] = {
        "run": folder / "run",
        "data": {"kind": "texts", "root": folder, "train": {"path": "texts.txt"}, "holdout": 24, "max_tokens": 32},
        "text": {"shared": "whitespace"},
        "batch": {"tokens": 512},
        "model": {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0, **model},
        "objective": {"smoothing": "none"},
        "schedule": {"kind": "inverse_sqrt", "peak": 0.01, "warmup": 10},
        "training": {"stop_after": "60u", "threads": 1},
        "validation": {"every": "30u"},
    }
    for key, value in changes.items():
        plan[key] = {**plan.get(key, {}), **value} if isinstance(value, dict) else value
    return Recipe.model_validate(plan)
