"""Masked spans (Raffel et al. 2020): in the source sentinels stand for spans, which the target spells out."""

from dataclasses import replace

import numpy as np
import torch

from qkv.data.batch import Batch, collate
from qkv.data.tasks.text_store import TextStore
from qkv.functional.masking.spans import corrupt_spans, span_counts
from qkv.models.base import Model
from qkv.models.config import Seq2SeqConfig
from qkv.models.language.text_to_text import TextToTextConfig
from qkv.objectives.base import LossReport, Objective
from qkv.objectives.build import ObjectiveKind, foreign_keys, objective_kinds
from qkv.objectives.parts import SpansConfig
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text.extra.sentinels import SentinelTokenizer
from qkv.text.folder import TokenizerPair
from qkv.text.special import SpecialIds


class MaskedSpans:
    """Teacher forcing on pairs that are made of texts anew at each update; in validation from the text's number alone.

    Texts of one token are left out.
    """

    def __init__(self, teacher: TeacherForcing, sentinels: list[int], special: SpecialIds, config: SpansConfig) -> None:
        self.teacher, self.sentinels, self.special, self.config = teacher, sentinels, special, config

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        seeds = torch.randint(2**62, (len(batch),)).tolist()
        pairs, left_out = self.pairs(batch, seeds)
        report = self.teacher.training_loss(model, pairs, update) if len(pairs) else nothing_learned(model)
        return replace(report, left_out=left_out)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        pairs, _ = self.pairs(batch, batch.examples)
        return self.teacher.validation_loss(model, pairs) if len(pairs) else nothing_learned(model)

    def pairs(self, batch: Batch, seeds: list[int]) -> tuple[Batch, int]:
        """The pairs of a batch of texts, and how many texts are too short."""
        texts = [row[keep].tolist()[1:-1] for row, keep in zip(batch.src, batch.src_keep, strict=True)]
        chosen = [number for number, text in enumerate(texts) if len(text) > 1]
        made = [self._pair(texts[number], seeds[number]) for number in chosen]
        examples = [batch.examples[number] for number in chosen]
        pairs = collate([src for src, _ in made], [tgt for _, tgt in made], self.special, self.special, examples)
        return pairs.to(batch.src.device), len(texts) - len(chosen)

    def _pair(self, text: list[int], seed: int) -> tuple[list[int], list[int]]:
        generator = torch.Generator().manual_seed(seed)
        source, target = corrupt_spans(text, self.sentinels, generator, self.config.density, self.config.mean_length)
        return source, text if self.config.whole else target


def nothing_learned(model: Model) -> LossReport:
    """The loss of no text, with a gradient of zero."""
    return LossReport(model.tgt_embedding.weight.sum() * 0, nll=0.0, weight=0.0)


class SpansKind(ObjectiveKind):
    """See `MaskedSpans`."""

    def problem(self, config: ObjectiveConfig, model: Seq2SeqConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing", "noise", "consistency", "spans"))

    def build(
        self, config: ObjectiveConfig, model: Seq2SeqConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        tokenizer = tokenizers.src
        assert isinstance(tokenizer, SentinelTokenizer)
        teacher = config.build(len(tokenizer), tokenizer.special, frequencies)
        return MaskedSpans(teacher, tokenizer.sentinels, tokenizer.special, config.spans)

    def epoch_weight(self, config: ObjectiveConfig, model: TextToTextConfig, train: TextStore) -> int:
        """All target tokens of an epoch."""
        lengths, texts = np.unique(train.src_len - 1, return_counts=True)
        each = [target_length(int(length), model.sentinels, config.spans) for length in lengths]
        return int(texts @ np.array(each))


def target_length(length: int, sentinels: int, config: SpansConfig) -> int:
    """The tokens of a target made of a text of `length` tokens, END included; 0 for a text that is left out."""
    if length < 2:
        return 0
    if config.whole:
        return length + 1
    noise, spans = span_counts(length, config.density, config.mean_length)
    # The spans, their sentinels, the closing one and END.
    return noise + min(spans, sentinels - 1) + 2


objective_kinds.register("spans", SpansKind())
