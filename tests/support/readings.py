"""Small models of every kind in float64, and examples that they read, alone or in a batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.data.batch import Batch, collate
from qkv.data.images.batch import ImageBatch
from qkv.data.series.batch import SeriesBatch
from qkv.data.tasks.labelled import text_rows
from qkv.data.tasks.text_batch import collate_packed, collate_texts
from qkv.models.base import Model
from qkv.models.config import ModelConfig, Seq2SeqConfig
from qkv.models.kinds import models
from qkv.models.vision.model import VisionModel
from qkv.text import SPECIAL, TokenizerPair
from tests.support.every_model import MODELS
from tests.support.searched import SMALL, TOKENIZERS
from tests.support.small import stir

VOCAB = len(TOKENIZERS.tgt)
PAIRS = [("ab aa ba bb aa ac", "ba ab cc ca bc"), ("ca aa", ""), ("", "ab"), ("bc cc aa aa ba", "ab ab aa")]
"""`aa` ends a sentence of a memory network's story."""
TEXTS = ["ba cc ab bb ca ac", "ca", "", "bc cc ab ba"]
"""`ab` stands between two segments."""
PACKED = [["ba cc", "ab bb ca ac", "ca"], ["bc"], ["", "ab ca"]]
IMAGE, WINDOW, HORIZON = 4, 8, 2


class Reading(NamedTuple):
    """Examples of one kind of data, and what a model says of them."""

    examples: Sequence[Any]
    """The longest first."""
    collate: Callable[[Sequence[Any], TokenizerPair], Any]
    """Some of them to a batch of float64."""
    said: Callable[[Model, Any], Tensor]
    """[N, numbers], the output at all positions that belong to the examples, one example after the other."""


def pairs(examples: Sequence[tuple[str, str]], tokenizers: TokenizerPair) -> Batch:
    src, tgt = (
        own.encode_batch([pair[side] for pair in examples]) for side, own in enumerate((tokenizers.src, tokenizers.tgt))
    )
    return collate(src, tgt, SPECIAL, SPECIAL, range(len(examples)))


def texts(examples: Sequence[str], tokenizers: TokenizerPair) -> Batch:
    return collate_texts(tokenizers.tgt.encode_batch(examples), SPECIAL, range(len(examples)))


def packed(examples: Sequence[Sequence[str]], tokenizers: TokenizerPair) -> Batch:
    return collate_packed([tokenizers.tgt.encode_batch(row) for row in examples], SPECIAL, range(len(examples)))


def sources(examples: Sequence[str], tokenizers: TokenizerPair) -> Batch:
    return text_rows(tokenizers.src.encode_batch(examples), tokenizers.src, list(range(len(examples))))


def drawn(example: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(example), dtype=torch.float64)


def images(examples: Sequence[int], tokenizers: TokenizerPair) -> ImageBatch:
    pixels = torch.stack([drawn(example, 1, IMAGE, IMAGE) for example in examples])
    return ImageBatch(pixels, torch.tensor(examples) % 2, list(examples))


def windows(examples: Sequence[int], tokenizers: TokenizerPair) -> SeriesBatch:
    both = torch.stack([drawn(example, WINDOW + HORIZON, 1) for example in examples])
    return SeriesBatch(both[:, :WINDOW], both[:, WINDOW:], both.std(dim=(1, 2)), list(examples))


def log_probs(model: Model, batch: Batch) -> Tensor:
    """[B, T, V] of the vocabulary, without the columns that a head that copies adds for the words of a source."""
    return model.head.log_probs(*model(batch))[..., :VOCAB]


def of_targets(model: Model, batch: Batch) -> Tensor:
    return log_probs(model, batch)[batch.tgt_weight > 0]


def of_tokens(model: Model, batch: Batch) -> Tensor:
    return log_probs(model, batch)[batch.src_keep]


def of_text(model: Model, batch: Batch) -> Tensor:
    return log_probs(model, batch)[:, 0]


def of_image(model: Model, batch: ImageBatch) -> Tensor:
    assert isinstance(model, VisionModel)
    return model.class_logits(batch)


def of_window(model: Model, batch: SeriesBatch) -> Tensor:
    return model(batch).states.flatten(1)


SEQ2SEQ = [kind for kind in models.names() if issubclass(models[kind], Seq2SeqConfig)]
READINGS: dict[str, Reading] = {
    **dict.fromkeys(SEQ2SEQ, Reading(PAIRS, pairs, of_targets)),
    "causal_lm": Reading(TEXTS, texts, of_targets),
    "causal_lm packed": Reading(PACKED, packed, of_targets),
    "masked_lm": Reading(TEXTS, sources, of_tokens),
    "tagger": Reading(TEXTS, sources, of_tokens),
    "classifier": Reading(TEXTS, sources, of_text),
    "vision": Reading(range(3), images, of_image),
    "forecasting": Reading(range(3), windows, of_window),
}
"""By kind or by form."""
FORMS: dict[str, dict[str, Any]] = {
    **SMALL,
    **{kind: settings for kind, settings in MODELS.items() if kind not in SMALL},
    "transformer pointer": {**SMALL["transformer"], "head": "pointer_generator"},
    "transformer copynet": {**SMALL["transformer"], "head": "copynet"},
    "recurrent own": {"head": {"kind": "pointer_generator", "attention": "own"}},
    "recurrent copynet": {"head": "copynet"},
    "causal_lm packed": MODELS["causal_lm"],
    "causal_lm rope": {**MODELS["causal_lm"], "positions": "rope", "num_layers": 2},
    "masked_lm segments": {**MODELS["masked_lm"], "separator": "ab"},
    "masked_lm window": {**MODELS["masked_lm"], "positions": "t5", "attention": {"kind": "longformer", "window": 2}},
    "vision mean": {**MODELS["vision"], "pooling": "mean"},
}
"""By kind; a second word names other parts of it."""


def reading_of(form: str) -> Reading:
    return READINGS[form] if form in READINGS else READINGS[form.split()[0]]


def config_of(form: str) -> ModelConfig:
    return models[form.split()[0]].model_validate({"d_model": 8, "dropout": 0.0, **FORMS[form]})


@lru_cache
def built(form: str) -> tuple[Model, TokenizerPair]:
    """With all its parameters moved away from where they begin, and the tokenizers as it uses them."""
    torch.manual_seed(0)
    config = config_of(form)
    tokenizers = config.tokenizers(TOKENIZERS)
    model = config.build(tokenizers).double().eval()
    stir(model)
    return model, tokenizers


def littered(batch: Batch, columns: int, seed: int) -> Batch:
    """With so many more columns of padding, and any ids in all of it, special ones included."""
    generator = torch.Generator().manual_seed(seed)

    def wider(tensor: Tensor) -> Tensor:
        return F.pad(tensor, (0, columns))

    def any_ids(ids: Tensor, real: Tensor) -> Tensor:
        return torch.where(wider(real), wider(ids), torch.randint(VOCAB, wider(ids).shape, generator=generator))

    whole = batch.each(wider, batch.examples)
    src, tgt_in = any_ids(batch.src, batch.src_keep), any_ids(batch.tgt_in, batch.tgt_weight > 0)
    return replace(whole, src=src, tgt_in=tgt_in)


def mislabelled(batch: Batch | ImageBatch | SeriesBatch) -> Batch | ImageBatch | SeriesBatch:
    """With other outputs to learn."""
    if isinstance(batch, ImageBatch):
        return replace(batch, labels=1 - batch.labels)
    if isinstance(batch, SeriesBatch):
        return replace(batch, future=-batch.future, scale=2 * batch.scale)
    return replace(batch, tgt_out=(batch.tgt_out + 1) % VOCAB)
