"""qkv: the Transformer as a sequence-to-sequence system: train, decode, measure, look inside, serve."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qkv.config import load_config
    from qkv.core.errors import QkvError
    from qkv.evaluation.metrics.base import Metric
    from qkv.evaluation.metrics.registry import register_metric
    from qkv.evaluation.score import score
    from qkv.layers.attention import Attention, AttentionConfig, attentions
    from qkv.layers.attention.context import AttentionContext
    from qkv.layers.attention.multi_head import MultiHeadAttention
    from qkv.layers.attention.recording import AttentionRecord, capture_attention
    from qkv.layers.feed_forward import FeedForward
    from qkv.layers.patches import PatchEmbedding
    from qkv.layers.positions import Positions, PositionsConfig, positions
    from qkv.layers.positions.rope import Rope
    from qkv.layers.positions.sinusoidal import Sinusoidal
    from qkv.models.forecasting.forecaster import PatchForecaster
    from qkv.models.saved.folder import load_model, save_model
    from qkv.models.transformer.standalone import Decoder, Encoder, Transformer
    from qkv.models.vision.classifier import VisionTransformer
    from qkv.recipes.pairs import recipe_for, train
    from qkv.training.optimizers import optimizers
    from qkv.training.progress import SilentTrainingReporter
    from qkv.training.recipe import Recipe
    from qkv.training.schedules import schedules
    from qkv.training.trainer import Trainer
    from qkv.translate.output import Translation
    from qkv.translate.translator import Translator
    from qkv.visual.see.inside import look_inside
    from qkv.visual.see.page import InsideView

__version__ = "0.1.0"

_HOMES = {
    "Attention": "qkv.layers.attention",
    "AttentionConfig": "qkv.layers.attention",
    "AttentionContext": "qkv.layers.attention.context",
    "AttentionRecord": "qkv.layers.attention.recording",
    "Decoder": "qkv.models.transformer.standalone",
    "Encoder": "qkv.models.transformer.standalone",
    "FeedForward": "qkv.layers.feed_forward",
    "InsideView": "qkv.visual.see.page",
    "Metric": "qkv.evaluation.metrics.base",
    "MultiHeadAttention": "qkv.layers.attention.multi_head",
    "PatchEmbedding": "qkv.layers.patches",
    "PatchForecaster": "qkv.models.forecasting.forecaster",
    "Positions": "qkv.layers.positions",
    "PositionsConfig": "qkv.layers.positions",
    "QkvError": "qkv.core.errors",
    "Recipe": "qkv.training.recipe",
    "Rope": "qkv.layers.positions.rope",
    "SilentTrainingReporter": "qkv.training.progress",
    "Sinusoidal": "qkv.layers.positions.sinusoidal",
    "Trainer": "qkv.training.trainer",
    "Transformer": "qkv.models.transformer.standalone",
    "Translation": "qkv.translate.output",
    "Translator": "qkv.translate.translator",
    "VisionTransformer": "qkv.models.vision.classifier",
    "attentions": "qkv.layers.attention",
    "capture_attention": "qkv.layers.attention.recording",
    "load_config": "qkv.config",
    "load_model": "qkv.models.saved.folder",
    "look_inside": "qkv.visual.see.inside",
    "optimizers": "qkv.training.optimizers",
    "positions": "qkv.layers.positions",
    "recipe_for": "qkv.recipes.pairs",
    "register_metric": "qkv.evaluation.metrics.registry",
    "save_model": "qkv.models.saved.folder",
    "schedules": "qkv.training.schedules",
    "score": "qkv.evaluation.score",
    "train": "qkv.recipes.pairs",
}

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionContext",
    "AttentionRecord",
    "Decoder",
    "Encoder",
    "FeedForward",
    "InsideView",
    "Metric",
    "MultiHeadAttention",
    "PatchEmbedding",
    "PatchForecaster",
    "Positions",
    "PositionsConfig",
    "QkvError",
    "Recipe",
    "Rope",
    "SilentTrainingReporter",
    "Sinusoidal",
    "Trainer",
    "Transformer",
    "Translation",
    "Translator",
    "VisionTransformer",
    "attentions",
    "capture_attention",
    "load_config",
    "load_model",
    "look_inside",
    "optimizers",
    "positions",
    "recipe_for",
    "register_metric",
    "save_model",
    "schedules",
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
