"""qkv: the Transformer as a sequence-to-sequence system: train, decode, measure, look inside, serve."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qkv.config import load_config
    from qkv.evaluation.score import score
    from qkv.layers.attention.recording import AttentionRecord, capture_attention
    from qkv.models.saved.folder import load_model, save_model
    from qkv.recipes.pairs import recipe_for, train
    from qkv.training.recipe import Recipe
    from qkv.training.trainer import Trainer
    from qkv.translate.translation import Translation
    from qkv.translate.translator import Translator

__version__ = "0.1.0"

_HOMES = {
    "AttentionRecord": "qkv.layers.attention.recording",
    "Recipe": "qkv.training.recipe",
    "Trainer": "qkv.training.trainer",
    "Translation": "qkv.translate.translation",
    "Translator": "qkv.translate.translator",
    "capture_attention": "qkv.layers.attention.recording",
    "load_config": "qkv.config",
    "load_model": "qkv.models.saved.folder",
    "recipe_for": "qkv.recipes.pairs",
    "save_model": "qkv.models.saved.folder",
    "score": "qkv.evaluation.score",
    "train": "qkv.recipes.pairs",
}

__all__ = [
    "AttentionRecord",
    "Recipe",
    "Trainer",
    "Translation",
    "Translator",
    "capture_attention",
    "load_config",
    "load_model",
    "recipe_for",
    "save_model",
    "score",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import qkv` stays fast, and so does `qkv --help`."""
    if name not in _HOMES:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names as well, though they are not imported yet: for `dir(qkv)` and completion in notebooks."""
    return sorted({*globals(), *__all__})
