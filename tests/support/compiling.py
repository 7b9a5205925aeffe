"""`training.compile` in a process of its own: the shape checks of the tests cannot be compiled."""

import json
import sys

import torch
from torch import Tensor

from qkv.config import load_config
from qkv.data.batch import Batch
from qkv.models.base import Model
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.step import compiled
from qkv.training.step.compiled import Compile, compile_model
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients
from qkv.training.trainer import Trainer
from tests.support.small import VOCAB, batch_of, small_model

SHAPES = [[(4, 3), (2, 5), (6, 2)], [(9, 12), (7, 8)], [(3, 3)] * 5, [(13, 20)] * 3]


def _learned(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """Sums of the loss, and the gradient."""
    objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    gradient = FlatGradient(model.train())
    sums = add_gradients(Task(model, objective, 1, Precision()), [batch], torch.device("cpu"))
    return sums, gradient.flat


def compare(what: Compile, backend: str) -> None:
    """Print how far compiled losses and gradients are from others, and what was compiled."""
    from torch._dynamo.utils import counters

    compiled.BACKEND = backend
    plain, model = (small_model(1, encoder_layers=1, decoder_layers=1) for _ in range(2))
    names = list(model.state_dict())
    compile_model(model, what)
    off = 0.0
    for lengths in SHAPES if what == "layers" else SHAPES[:2]:
        batch = batch_of(lengths)
        for found, wanted in zip(_learned(model, batch), _learned(plain, batch), strict=True):
            off = max(off, float((found - wanted).abs().max()))
    graphs = counters["stats"]["unique_graphs"]
    about = {"off": off, "graphs": graphs, "breaks": len(counters["graph_break"])}
    sys.stdout.write(json.dumps({**about, "same names": list(model.state_dict()) == names}) + "\n")


def train(recipe: str, resume: bool) -> None:
    """With a compiler that needs no seconds; prints how many graphs it made."""
    from torch._dynamo.utils import counters

    compiled.BACKEND = "aot_eager"
    loaded = load_config(Recipe, recipe)
    trainer = Trainer.resume(loaded) if resume else Trainer(loaded)
    trainer.reporter = SilentTrainingReporter()
    trainer.train()
    sys.stdout.write(str(counters["stats"]["unique_graphs"]) + "\n")
