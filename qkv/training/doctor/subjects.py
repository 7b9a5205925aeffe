"""What the self-tests of a device are made on: a small model, pairs, an update, a search."""

import random

import torch
from torch import Tensor

from qkv.data.batch import Batch, collate
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import PLAIN, TorchEngine, TorchSettings
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import Constraints
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.text.special import NAMES, SPECIAL
from qkv.training.optimizers import AdamWConfig
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients

VOCAB = 40


class CheckFailed(Exception):
    """A check that did not hold, in a sentence."""


def subject(seed: int = 1, **sizes: int) -> Transformer:
    """A model with random weights and no dropout."""
    torch.manual_seed(seed)
    plain = {"d_model": 32, "d_ff": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2} | sizes
    return build_model(TransformerConfig(**plain, dropout=0.0), VOCAB, VOCAB, SPECIAL.pad)


def pairs(count: int, longest: int, seed: int = 1) -> Batch:
    """Sources and their reversals."""
    draw = random.Random(seed)
    src = [draw.choices(range(len(NAMES), VOCAB), k=draw.randint(2, longest)) for _ in range(count)]
    return collate(src, [ids[::-1] for ids in src], SPECIAL, SPECIAL, range(count))


class LearningModel:
    """A model that learns on a device, as training does it."""

    def __init__(self, model: Transformer, precision: Precision) -> None:
        self.model, self.precision = model.to(precision.device).train(), precision
        self.gradient, self.optimizer = FlatGradient(self.model), AdamWConfig().build(self.model)
        self.objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))

    def learn(self, batch: Batch, rate: float) -> tuple[float, float]:
        """One update; its loss a token, and the norm of the gradient."""
        self.gradient.clear()
        task = Task(self.model, self.objective, 1, self.precision)
        sums = add_gradients(task, [batch.to(self.precision.device)], self.precision.device)
        loss, _, weight, _, norm = torch.cat([sums, self.gradient.norm().to(sums)[None]]).tolist()
        norm = self.gradient.finish(norm, weight, 1.0)
        self.optimizer.step(rate)
        return loss / weight, norm


def searched(
    model: Transformer, batch: Batch, search: GreedyConfig | BeamConfig, settings: TorchSettings = PLAIN
) -> list[Hypothesis]:
    """The best output of each source."""
    sources = [row[keep].tolist() for row, keep in zip(batch.src, batch.src_keep, strict=True)]
    request = DecodeRequest(search, 1, [Constraints()] * len(sources))
    return [best for best, *_ in TorchEngine([model], settings=settings).decode(sources, request)]


def decoded(model: Transformer, batch: Batch, search: GreedyConfig | BeamConfig) -> list[list[int]]:
    return [best.tokens for best in searched(model, batch, search)]


def require_close(found: Tensor, wanted: Tensor, tolerance: float, otherwise: str) -> None:
    off = float((found - wanted).abs().max())
    if not off <= tolerance:
        raise CheckFailed(f"{otherwise}: it moves by {off:.1e}")
