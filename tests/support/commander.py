"""A small model of a small vocabulary that learnt commands as in SCAN: "walk twice" -> "WALK WALK".

Label smoothing gives each of its few tokens a share at every step, END too: hard for a search that counts ENDs.
"""

import random

import torch

from qkv.data.batch import collate
from qkv.models.transformer.model import Transformer
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from tests.support.small import small_model

VERBS, LEFT, TIMES, AND = range(5, 9), 9, {10: 1, 11: 2, 12: 3}, 13
"""Source ids; an action has the id of its verb."""
SRC_VOCAB, TGT_VOCAB = 14, 10


def command(chance: random.Random) -> tuple[list[int], list[int]]:
    """A command of one or two parts, and what is to be done."""
    src: list[int] = []
    tgt: list[int] = []
    for _ in range(chance.choice((1, 2))):
        verb, turned, times = chance.choice(VERBS), chance.random() < 0.5, chance.choice(list(TIMES))
        src += [*([AND] if src else []), verb, *([LEFT] if turned else []), times]
        tgt += [*([LEFT] if turned else []), verb] * TIMES[times]
    return src, tgt


def commands(count: int, seed: int) -> list[list[int]]:
    """Sources with END."""
    chance = random.Random(seed)
    return [[*command(chance)[0], SPECIAL.eos] for _ in range(count)]


def commander(updates: int = 150, seed: int = 0) -> Transformer:
    """Trained by a plain loop; in evaluation mode."""
    model = small_model(seed, SRC_VOCAB, TGT_VOCAB, d_model=32, d_ff=64, share_embeddings="none", residual="pre")
    objective = ObjectiveConfig().build(TGT_VOCAB, SPECIAL, lambda: torch.ones(TGT_VOCAB))
    optimizer, chance = torch.optim.Adam(model.parameters(), 5e-3), random.Random(seed)
    for update in range(updates):
        pairs = [command(chance) for _ in range(32)]
        batch = collate([src for src, _ in pairs], [tgt for _, tgt in pairs], SPECIAL, SPECIAL, range(len(pairs)))
        report = objective.training_loss(model, batch, update)
        optimizer.zero_grad()
        (report.sum / report.weight).backward()
        optimizer.step()
    return model.eval()
