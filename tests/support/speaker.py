"""Random models that speak: nine words, outputs of all lengths, an END now and then."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from qkv.engines.model_set import ModelLike
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedConfig, SavedModel, save_model
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.text import SPECIAL
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from tests.support.small import WORDS, small_config, small_text, stir

SHORT: dict[str, Any] = {"max_factor": 1.0, "max_extra": 2}
"""Short outputs, for quick tests."""


def speaker(seed: int = 3, sharpness: float = 4, **changes: Any) -> SavedModel:
    """A model in evaluation mode with its tokenizers. A very sharp one with several layers amplifies its rounding."""
    text, tokenizers = small_text()
    plain = {"residual": "pre", "share_embeddings": "none", "encoder_layers": 1, "decoder_layers": 1}
    config = small_config(**{**plain, **changes})
    torch.manual_seed(seed)
    model = config.build(tokenizers).eval()
    stir(model)
    with torch.no_grad():
        matrix = output_matrix(model.head).mul_(2)
        matrix[SPECIAL.eos] *= 1.3
        # Sharp attention: what is said depends on what was read.
        for layer in model.decoder.in_order():
            for parameter in (*layer.attention.parameters(), *layer.cross_attention.parameters()):
                parameter.mul_(sharpness)
    return SavedModel(model, tokenizers, SavedConfig(model=config, text=text))


def endless() -> SavedModel:
    """Never says END."""
    saved = speaker()
    with torch.no_grad():
        saved.model.get_parameter("decoder.final.bias").fill_(1.0)
        output_matrix(saved.model.head)[SPECIAL.eos] = -100.0
    return saved


def torch_translator(saved: ModelLike | Sequence[ModelLike] | None = None, **settings: Any) -> Translator:
    """With greedy search, if nothing else is said."""
    return Translator(saved or speaker(), "torch", **{"search": GreedyConfig(**SHORT), **settings})


def save_speaker(folder: Path, seed: int = 3, **changes: Any) -> Path:
    save_model(folder, speaker(seed, **changes))
    return folder


def sentences(count: int, longest: int = 8, seed: int = 4) -> list[str]:
    """Of 1 to `longest` words."""
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(1, longest))) for _ in range(count)]


def assert_same(some: Sequence[Translation], others: Sequence[Translation]) -> None:
    """Equal texts, and scores up to rounding, which on a processor with AVX2 only has made 2.7e-5."""
    assert [one.text for one in some] == [one.text for one in others]
    for scores, wanted in (
        ([one.score for one in some], [one.score for one in others]),
        (
            [score for one in some for score in one.token_scores],
            [score for one in others for score in one.token_scores],
        ),
    ):
        assert torch.allclose(torch.tensor(scores), torch.tensor(wanted), atol=1e-4)


def compare_batches(count: int) -> None:
    """Alone, in small batches, in another order, and all at once: the translations are the same."""
    model = speaker()
    for search, size in ((GreedyConfig(**SHORT), count), (BeamConfig(size=3, **SHORT), count // 3)):
        given, order = sentences(size), random.Random(1).sample(range(size), size)
        single, small, large = (Translator(model, "torch", search, 1, tokens) for tokens in (1, 500, 10**6))
        alone = [found for text in given for found in single.translate([text])]
        assert len({found.text for found in alone}) > 50
        assert_same(small.translate(given), alone)
        assert_same(small.translate([given[i] for i in order]), [alone[i] for i in order])
        assert_same(large.translate(given), alone)
