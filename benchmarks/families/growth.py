"""How the time of a target token grows with the length, in training and in decoding."""

import argparse
import random
import time
from collections.abc import Callable
from functools import partial

import torch

from families.first_word import TOKENIZERS, WORDS
from families.models import keys_of, width_for
from families.results import Record, Results
from qkv.config import validate
from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.kinds import models
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.models import ModelSteps
from qkv.text import SPECIAL
from qkv.text.special import NAMES

TOKENS = 1024
"""Target positions of a batch, however long its rows are."""


def copies(length: int) -> Batch:
    draw = random.Random(length)
    rows = max(1, TOKENS // length)
    texts = [[len(NAMES) + draw.randrange(WORDS) for _ in range(length - 1)] for _ in range(rows)]
    return collate(texts, texts, SPECIAL, SPECIAL, range(rows))


def training_step(model: Model, batch: Batch) -> None:
    size = len(TOKENIZERS.tgt)
    report = ObjectiveConfig().build(size, SPECIAL, lambda: torch.ones(size)).training_loss(model.train(), batch, 1)
    (report.sum / report.weight).backward()


@torch.no_grad()
def decoding(steps: ModelSteps, batch: Batch) -> None:
    """One sentence, token by token, with its cache."""
    state = steps.start(batch.src[:1], batch.src_keep[:1])
    for token in batch.tgt_in[0].tolist():
        _, state = steps.step(torch.tensor([token]), state)


def growth_key(options: argparse.Namespace) -> Record:
    """What the measurements of all families and lengths depend on."""
    return {"part": "growth", "parameters": options.parameters, "rounds": options.rounds}


def run_growth(options: argparse.Namespace, results: Results) -> None:
    """Processor seconds a target token: in turns over the families, the best of --rounds."""
    for length in options.growth_lengths:
        key = {**growth_key(options), "length": length}
        missing = [family for family in options.families if results.find({**key, "family": family}) is None]
        built, batch = {family: _built(family, options.parameters) for family in missing}, copies(length)
        trained = _in_turns(
            {family: partial(training_step, model, batch) for family, model in built.items()}, options.rounds
        )
        decoded = _in_turns(
            {family: partial(decoding, ModelSteps(model), batch) for family, model in built.items()}, options.rounds
        )
        count = float(batch.tgt_weight.sum())
        for family in missing:
            found = {"training": trained[family] / count, "decoding": decoded[family] / length}
            results.add({**key, "family": family}, **found)


def _built(family: str, parameters: int) -> Model:
    torch.manual_seed(1)
    keys = keys_of(family, width_for(family, parameters, TOKENIZERS), 0.1)
    if keys["kind"] == "convolutional":
        keys["positions"] = {"kind": "learned", "max_length": 2048}
    return validate(models[keys["kind"]], keys, family).build(TOKENIZERS)


def _in_turns(work: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(work, float("inf"))
    for number in range(rounds + 1):
        for family, do in work.items():
            began = time.process_time()
            do()
            if number:
                best[family] = min(best[family], time.process_time() - began)
    return best
