"""Masked spans (Raffel et al. 2020): in the source sentinels stand for spans, which the target spells out."""

from dataclasses import replace

import torch

from qkv.data.batch import Batch, collate
from qkv.functional.masking.spans import corrupt_spans
from qkv.models.base import Model
from qkv.models.config import Seq2SeqConfig
from qkv.objectives.base import LossReport, Objective
from qkv.objectives.build import objective_kinds
from qkv.objectives.language.next_token import foreign_keys
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
        return replace(self.teacher.training_loss(model, pairs, update), left_out=left_out)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self.teacher.validation_loss(model, self.pairs(batch, batch.examples)[0])

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
        return corrupt_spans(text, self.sentinels, generator, self.config.density, self.config.mean_length)


class SpansKind:
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


objective_kinds.register("spans", SpansKind())
