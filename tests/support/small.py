"""Small models and batches that several folders of tests share."""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.text import SPECIAL, TextConfig, TokenizerPair, WhitespaceConfig

VOCAB = 23
WORDS = ["".join(letters) for letters in product("abc", repeat=2)]


def small_config(**changes: Any) -> TransformerConfig:
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    return TransformerConfig(**{**sizes, **changes})


def small_model(seed: int = 0, src_vocab: int = VOCAB, tgt_vocab: int = VOCAB, **changes: Any) -> Transformer:
    """In training mode, without dropout; every bias and norm is drawn too, so that none hides behind 0 or 1."""
    torch.manual_seed(seed)
    model = build_model(small_config(**changes), src_vocab, tgt_vocab, SPECIAL.pad)
    stir(model)
    return model


def stir(model: nn.Module) -> None:
    """Move every parameter away from its starting value."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


def random_ids(source: random.Random, length: int, vocab: int = VOCAB) -> list[int]:
    """Ordinary ids only: a sentence without its END."""
    return [source.randrange(5, vocab) for _ in range(length)]


def batch_of(lengths: Sequence[tuple[int, int]], seed: int = 0, vocab: int = VOCAB) -> Batch:
    """Random pairs of the given lengths (source, target), without END."""
    source = random.Random(seed)
    src = [random_ids(source, length, vocab) for length, _ in lengths]
    tgt = [random_ids(source, length, vocab) for _, length in lengths]
    return collate(src, tgt, SPECIAL, SPECIAL, range(len(lengths)))


def small_text() -> tuple[TextConfig, TokenizerPair]:
    """One tokenizer of nine words for both sides."""
    config = TextConfig(shared=WhitespaceConfig())
    return config, config.train(lambda: [" ".join(WORDS)], lambda: [])


def transformer(model: Model) -> Transformer:
    """`model`, which is a Transformer."""
    assert isinstance(model, Transformer)
    return model


def gradient_of(tensor: Tensor) -> Tensor:
    """That of the backward pass, which reached it."""
    assert tensor.grad is not None
    return tensor.grad


@torch.no_grad()
def decode(model: Model, src: Tensor, src_keep: Tensor, tgt_in: Tensor) -> Tensor:
    """Decoded vectors without a gradient."""
    return transformer(model).states(src, src_keep, tgt_in)
