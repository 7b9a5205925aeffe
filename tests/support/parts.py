"""Every kind of part that a model is made of, and what a decoder reads."""

import random
from typing import Any

import torch
from torch import Tensor

from qkv.config.base import Kinds
from qkv.data.batch import padded
from qkv.layers.attention.scores import scores
from qkv.layers.feed_forward import feed_forwards
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.text import SPECIAL
from tests.support.attentions import CAUSAL, FOLLOWING, everywhere
from tests.support.small import VOCAB, random_ids

REGISTRIES: dict[str, Kinds[Any]] = {
    "positions": positions,
    "residual": residuals,
    "feed_forward": feed_forwards,
    "wiring": wirings,
}
# Reversible layers need a residual form that only adds.
STACKS: list[dict[str, Any]] = [{"stack": kind, "residual": "pre"} for kind in stacks.names()]
PARTS: list[dict[str, Any]] = [
    *({part: kind} for part, kinds in REGISTRIES.items() for kind in kinds.names()),
    *STACKS,
]
"""Settings of a model that together have every kind of every part."""

CAUSAL_PARTS: list[dict[str, Any]] = [
    *({"positions": kind} for kind in positions.names()),
    *({"residual": kind} for kind in residuals.names()),
    *({"wiring": kind} for kind in wirings.names()),
    *({"decoder_attention": {"score": kind}} for kind in scores.names()),
    {"decoder_attention": {"kv_heads": 1}, "cross_attention": {"kv_heads": 1}},
    *STACKS,
    *({"decoder_attention": setting, "num_heads": 4} for setting in CAUSAL),
    {"decoder_attention": CAUSAL[-1], "num_heads": 4, "positions": "t5"},
    {"share_layers": True},
    *(everywhere(setting) for setting in FOLLOWING),
]
"""The same for what a decoder makes of a prefix, with its kinds of attention."""


def sources(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    source = random.Random(seed)
    return padded([[*random_ids(source, length), SPECIAL.eos] for length in lengths], SPECIAL.pad)


def random_tokens(rows: int, count: int, seed: int = 1) -> list[Tensor]:
    torch.manual_seed(seed)
    return [torch.full((rows,), SPECIAL.bos), *(torch.randint(5, VOCAB, (rows,)) for _ in range(count - 1))]
