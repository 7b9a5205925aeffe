"""Masked tokens (Devlin et al. 2019): of 15 % of the tokens, 80 % are masked, 10 % replaced by others, 10 % kept."""

from dataclasses import replace

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing, no_smoothing
from qkv.functional.masking.tokens import choose_tokens, replace_chosen
from qkv.models.base import Model
from qkv.models.config import ModelConfig
from qkv.objectives.base import LossReport, Objective
from qkv.objectives.build import objective_kinds
from qkv.objectives.language.next_token import foreign_keys
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair
from qkv.text.special import NAMES, SpecialIds


class MaskedTokens:
    """-log p(x_t | the text with some tokens masked), summed over the chosen positions alone.

    Special tokens are never chosen, and at least one token of each text is. In validation the choice depends on the
    text's number alone.
    """

    def __init__(
        self, vocab_size: int, special: SpecialIds, rate: float, smoothing: Smoothing, plain: Smoothing
    ) -> None:
        self.vocab_size, self.special, self.rate = vocab_size, special, rate
        self.smoothing, self.plain = smoothing, plain

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        return self._loss(model, batch, torch.rand(3, *batch.src.shape), self.smoothing)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        rows = [torch.Generator().manual_seed(example) for example in batch.examples]
        drawn = [torch.rand(3, int(keep.sum()), generator=own) for own, keep in zip(rows, batch.src_keep, strict=True)]
        scores = torch.ones(3, *batch.src.shape)
        for row, own in enumerate(drawn):
            scores[:, row, : own.shape[1]] = own
        return self._loss(model, batch, scores, self.plain)

    def corrupted(self, batch: Batch, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The text with masked tokens [B, S], and which positions were chosen; `scores` [3, B, S] are uniform."""
        scores = scores.to(batch.src.device)
        eligible = batch.src_keep & (batch.src >= len(NAMES)) | (batch.src == self.special.unk)
        chosen = choose_tokens(eligible, self.rate, scores[0])
        others = (scores[2] * (self.vocab_size - len(NAMES))).long().clamp_max(self.vocab_size - len(NAMES) - 1)
        return replace_chosen(batch.src, chosen, self.special.mask, others + len(NAMES), scores[1]), chosen

    def _loss(self, model: Model, batch: Batch, scores: Tensor, smoothing: Smoothing) -> LossReport:
        src, chosen = self.corrupted(batch, scores)
        states, context = model(replace(batch, src=src))
        weights = torch.ones(int(chosen.sum()), device=src.device)
        loss, nll = model.head.loss(states[chosen], context.at(chosen), batch.src[chosen], weights, smoothing)
        return LossReport(loss, float(nll), float(len(weights)))


class MaskedTokensKind:
    """See `MaskedTokens`."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing", "masking"))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        tokenizer = tokenizers.src
        size, special = len(tokenizer), tokenizer.special
        smoothing = config.smoothing.build(size, special.pad, frequencies)
        return MaskedTokens(size, special, config.masking.rate, smoothing, no_smoothing(size))


class LabelsKind:
    """Cross-entropy of the labels of texts or words."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing",))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return config.build(len(tokenizers.tgt), tokenizers.tgt.special, frequencies)


objective_kinds.register("masked_tokens", MaskedTokensKind())
objective_kinds.register("text_labels", LabelsKind())
