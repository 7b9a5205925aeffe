"""Random models that speak: nine words, outputs of all lengths, an END now and then."""

import random
from pathlib import Path
from typing import Any

import torch

from qkv.models.folder import SavedConfig, SavedModel, new_model, save_model
from qkv.text import SPECIAL
from tests.support.small import WORDS, small_config, small_text, stir


def speaker(seed: int = 3, **changes: Any) -> SavedModel:
    """A model in evaluation mode with its tokenizers."""
    text, tokenizers = small_text()
    plain = {"residual": "pre", "share_embeddings": "none", "encoder_layers": 1, "decoder_layers": 1}
    config = small_config(**{**plain, **changes})
    torch.manual_seed(seed)
    model = new_model(config, tokenizers).eval()
    stir(model)
    with torch.no_grad():
        model.head.weight *= 3
        model.head.weight[SPECIAL.eos] *= 1.5
    return SavedModel(model, tokenizers, SavedConfig(model=config, text=text))


def endless() -> SavedModel:
    """Never says END."""
    saved = speaker()
    with torch.no_grad():
        saved.model.decoder.final.bias.fill_(1.0)
        saved.model.head.weight[SPECIAL.eos] = -100.0
    return saved


def save_speaker(folder: Path, seed: int = 3, **changes: Any) -> Path:
    save_model(folder, speaker(seed, **changes))
    return folder


def sentences(count: int, longest: int = 8, seed: int = 4) -> list[str]:
    """Of 1 to `longest` words."""
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(1, longest))) for _ in range(count)]
