"""Every kind of everything that is trained: models, objectives, batches."""

from collections.abc import Callable
from typing import Any

import torch

from qkv.data.batch import Batch
from qkv.data.images.batch import ImageBatch
from qkv.data.series.batch import SeriesBatch
from qkv.data.tasks.base import TrainingBatch
from qkv.data.tasks.text_batch import collate_texts
from qkv.models.base import Model
from qkv.models.kinds import models
from qkv.objectives import build as objectives
from qkv.objectives.base import Objective
from qkv.objectives.consistency import consistencies
from qkv.objectives.noise import noises
from qkv.objectives.scheduled_sampling.mixing import samplings
from qkv.objectives.smoothing import smoothings
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from tests.support.attentions import ENCODER, FOLLOWING, everywhere
from tests.support.parts import PARTS
from tests.support.searched import TOKENIZERS, small
from tests.support.small import VOCAB

Build = Callable[[], Model]
ATTENTION = [*ENCODER, *FOLLOWING]
MODELS: list[dict[str, Any]] = [{}, *PARTS, *map(everywhere, ATTENTION), {"share_layers": True}]


def teacher(vocab: int = VOCAB, **settings: Any) -> Objective:
    return ObjectiveConfig(**settings).build(vocab, SPECIAL, lambda: torch.arange(vocab, dtype=torch.float64))


OBJECTIVES: list[dict[str, Any]] = [
    *({"smoothing": kind} for kind in smoothings.names()),
    *({"noise": [{"kind": kind, "rate": 0.5}]} for kind in noises.names()),
    *({"consistency": kind} for kind in consistencies.names()),
    *({"scheduled_sampling": {"kind": kind, "gold": {"kind": "linear", "updates": 2}}} for kind in samplings.names()),
    {"attention": ["guided", "coverage"]},
]


def seq2seq(kind: str) -> tuple[Build, int]:
    """A model of this kind, and the size of its vocabulary."""
    config = small(kind)
    tokenizers = config.tokenizers(TOKENIZERS)

    def build() -> Model:
        torch.manual_seed(0)
        return config.build(tokenizers)

    return build, len(tokenizers.tgt)


def other_models() -> dict[str, tuple[str, dict[str, Any], TrainingBatch]]:
    """Kind of model: the kind of its data, settings, and a batch."""
    sizes = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.0}
    texts = collate_texts([[7, 8, 9, 6], [10, 7]], SPECIAL, [0, 1])
    labelled = Batch(texts.src, texts.src_keep, texts.tgt_in[:, :1], torch.tensor([[5], [6]]), torch.ones(2, 1), [0, 1])
    tagged = Batch(texts.src, texts.src_keep, texts.tgt_in, texts.src, texts.src_keep.float(), [0, 1])
    torch.manual_seed(0)
    images = ImageBatch(torch.rand(2, 1, 4, 4).double(), torch.tensor([0, 2]), [0, 1])
    past, future, scale = (torch.rand(2, *size).double() for size in ((8, 1), (2, 1), ()))
    series = SeriesBatch(past, future, scale, [0, 1])
    return {
        "causal_lm": ("texts", sizes, texts),
        "masked_lm": ("texts", sizes, texts),
        "classifier": ("labelled", sizes, labelled),
        "tagger": ("tagged", sizes, tagged),
        "vision": ("images", {**sizes, "image_size": [4, 4], "patch": 2, "channels": 1, "classes": 3}, images),
        "forecasting": ("series", {**sizes, "context": 8, "horizon": 2, "patch": 4, "stride": 4}, series),
    }


def of_other_data(kind: str) -> tuple[Build, Objective, TrainingBatch]:
    """A model of this kind, and what it learns from."""
    data, settings, batch = other_models()[kind]
    config = models[kind].model_validate(settings)
    tokenizers = config.tokenizers(TOKENIZERS)

    def frequencies() -> torch.Tensor:
        return torch.ones(len(tokenizers.tgt))

    def build() -> Model:
        torch.manual_seed(0)
        return config.build(tokenizers)

    return build, objectives.objective_of(ObjectiveConfig(), config, data, tokenizers, frequencies), batch
