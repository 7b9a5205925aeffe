"""The families that are compared, and their widths at an equal number of parameters."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from qkv.config import validate
from qkv.models.base import Model
from qkv.models.bytenet.model import ByteNet
from qkv.models.convolutional.model import ConvolutionalModel
from qkv.models.kinds import models
from qkv.models.recurrent.model import RecurrentModel
from qkv.models.size import count_parameters
from qkv.models.transformer.model import Transformer
from qkv.text import TokenizerPair

BASELINE = "Transformer"
ONE_VECTOR: dict[str, Any] = {
    "kind": "recurrent",
    "attention": "none",
    "first_state": "last",
    "encoder": "unidirectional",
}
TRANSFORMER: dict[str, Any] = {
    "kind": "transformer",
    "residual": "pre",
    "num_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 3,
}
FAMILIES: dict[str, dict[str, Any]] = {
    BASELINE: TRANSFORMER,
    "Transformer, rotary": {**TRANSFORMER, "positions": "rope"},
    "RNN, one vector": {**ONE_VECTOR, "encoder_layers": 2, "decoder_layers": 2},
    "RNN with attention": {
        "kind": "recurrent",
        "attend": "after",
        "attention": {"kind": "content", "score": "general"},
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "ConvS2S": {"kind": "convolutional", "encoder_layers": 4, "decoder_layers": 3},
    "ByteNet": {"kind": "bytenet", "decoder_repeats": 2},
}
STEP = 8
"""Widths are multiples of this."""


def keys_of(family: str, d_model: int, dropout: float) -> dict[str, Any]:
    """The keys of `model` in a recipe."""
    wide = {"d_ff": 4 * d_model} if FAMILIES[family]["kind"] == "transformer" else {}
    return {**FAMILIES[family], "d_model": d_model, "dropout": dropout, **wide}


def width_for(family: str, parameters: int, tokenizers: TokenizerPair) -> int:
    """The width with which a model has about so many parameters."""

    def distance(d_model: int) -> int:
        return abs(size_of(family, d_model, tokenizers) - parameters)

    width = STEP
    while size_of(family, width, tokenizers) < parameters:
        width += STEP
    return min((max(STEP, width - STEP), width), key=distance)


def size_of(family: str, d_model: int, tokenizers: TokenizerPair) -> int:
    config = validate(models[FAMILIES[family]["kind"]], keys_of(family, d_model, 0.0), family)
    return count_parameters(config, tokenizers)


def encoder_of(model: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """Source ids and their mask [B, S] to the states of the encoder [B, S, D]."""
    if isinstance(model, RecurrentModel):
        return lambda src, keep: model.start(src, keep).source.memory
    if isinstance(model, ConvolutionalModel):
        return lambda src, keep: model.start(src, keep).source.keys
    if isinstance(model, ByteNet):
        return lambda src, keep: model.encode(src, keep)[:, : src.shape[1]]
    assert isinstance(model, Transformer)
    return model.encode
