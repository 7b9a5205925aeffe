"""How much of the first word survives after n words, and how the length of the path to it matters.

Three measurements on random words, each against chance (one in `WORDS`):

    copy    a whole model learns to say the first word of n
    probe   of that model, frozen: a linear map from the encoder's state at the last word to the first one
    path    an encoder learns to name the first word at the place of the last one, through a linear map
"""

import argparse
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from families.models import BASELINE, FAMILIES, ONE_VECTOR, encoder_of, keys_of
from families.results import Record, Results
from qkv.config import validate
from qkv.core.progress import default_reporter
from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.kinds import models
from qkv.objectives.smoothing import NoSmoothing
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL, TextConfig, WhitespaceConfig
from qkv.text.special import NAMES

WORDS = 16
WIDTH, ROWS, SAMPLES = 32, 32, 256
TOKENIZERS = TextConfig(shared=WhitespaceConfig()).train(
    lambda: [" ".join(f"w{number}" for number in range(WORDS))], lambda: []
)
ENCODERS: dict[str, dict[str, Any]] = {
    BASELINE: FAMILIES[BASELINE],
    "LSTM": {**ONE_VECTOR, "encoder_layers": 1},
    "LSTMN": {**ONE_VECTOR, "encoder_layers": 1, "encoder": "lstmn"},
    "ConvS2S": FAMILIES["ConvS2S"],
    "ByteNet": FAMILIES["ByteNet"],
}
"""What is on the way from the first word to the last one."""


def batch_of(draw: random.Random, length: int, rows: int) -> Batch:
    sources = [[len(NAMES) + draw.randrange(WORDS) for _ in range(length)] for _ in range(rows)]
    return collate(sources, [source[:1] for source in sources], SPECIAL, SPECIAL, range(rows))


def built(keys: dict[str, Any]) -> Model:
    torch.manual_seed(1)
    most = {"positions": {"kind": "learned", "max_length": 1024}} if keys["kind"] == "convolutional" else {}
    return validate(models[keys["kind"]], {**keys, "d_model": WIDTH, "dropout": 0.0, **most}, "model").build(TOKENIZERS)


def fit(parameters: list[nn.Parameter], loss: Callable[[Batch], Tensor], length: int, options: Any) -> None:
    """Adam with a warm-up and a linear end, the same for all."""
    optimizer, draw = torch.optim.Adam(parameters, betas=(0.9, 0.98)), random.Random(1)
    for update in range(1, options.first_word_updates + 1):
        left = 1 - update / options.first_word_updates
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, update / 30, left / 0.5 + 0.05)
        optimizer.zero_grad()
        loss(batch_of(draw, length, ROWS)).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


def last_states(model: Model, batch: Batch) -> Tensor:
    """[B, D], the encoder's state at the last word; END comes behind it."""
    return encoder_of(model)(batch.src, batch.src_keep)[:, -2]


def readout_loss(model: Model, readout: nn.Linear) -> Callable[[Batch], Tensor]:
    return lambda batch: nn.functional.cross_entropy(readout(last_states(model, batch)), batch.src[:, 0])


@torch.no_grad()
def readout_accuracy(model: Model, readout: nn.Linear, length: int) -> float:
    batch = batch_of(random.Random(2), length, SAMPLES)
    return float((readout(last_states(model, batch)).argmax(-1) == batch.src[:, 0]).double().mean())


def copy_and_probe(family: str, length: int, options: argparse.Namespace) -> dict[str, float]:
    model = built(keys_of(family, WIDTH, 0.0))
    size = len(TOKENIZERS.tgt)
    teacher = ObjectiveConfig(smoothing=NoSmoothing()).build(size, SPECIAL, lambda: torch.ones(size))

    def loss(batch: Batch) -> Tensor:
        report = teacher.training_loss(model, batch, 1)
        return report.sum / report.weight

    fit(list(model.parameters()), loss, length, options)
    batch = batch_of(random.Random(2), length, SAMPLES)
    with torch.no_grad():
        states, context = model.eval()(batch)
        said = model.head.log_probs(states[:, 0], context.at((slice(None), 0))).argmax(-1)
    copied = float((said == batch.src[:, 0]).double().mean())
    model.requires_grad_(False)
    readout = nn.Linear(WIDTH, size)
    fit(list(readout.parameters()), readout_loss(model, readout), length, options)
    return {"copied": copied, "probed": readout_accuracy(model, readout, length)}


def learned_by_path(encoder: str, length: int, options: argparse.Namespace) -> dict[str, float]:
    model = built(ENCODERS[encoder] | ({"d_ff": 4 * WIDTH} if encoder == BASELINE else {}))
    readout = nn.Linear(WIDTH, len(TOKENIZERS.tgt))
    inside = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit([*inside, *readout.parameters()], readout_loss(model, readout), length, options)
    return {"named": readout_accuracy(model, readout, length)}


def first_word_key(part: str, options: argparse.Namespace) -> Record:
    """What the measurements of all models and lengths depend on."""
    return {"part": part, "updates": options.first_word_updates}


def run_first_word(options: argparse.Namespace, results: Results) -> None:
    reporter = default_reporter()
    try:
        for length in options.lengths:
            for part, names, measure in (
                ("first word", options.families, copy_and_probe),
                ("path", list(ENCODERS), learned_by_path),
            ):
                for name in names:
                    key = {**first_word_key(part, options), "name": name, "length": length}
                    if results.find(key) is None and not (name == "LSTMN" and length > options.longest_lstmn):
                        reporter.say(f"{part}: {name}, {length} words")
                        results.add(key, **measure(name, length, options))
    finally:
        reporter.close()
