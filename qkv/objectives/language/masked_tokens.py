"""Masked tokens (Devlin et al. 2019): of 15 % of the tokens, 80 % are masked, 10 % replaced by others, 10 % kept."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from qkv.data.batch import Batch, padded
from qkv.data.store import LengthArray, PairStore
from qkv.data.tasks.text_store import TextStore
from qkv.functional.losses import Smoothing, no_smoothing
from qkv.functional.masking.tokens import choose_tokens, chosen_counts, replace_chosen
from qkv.models.base import Model
from qkv.models.config import ModelConfig
from qkv.objectives.base import LossReport, Objective
from qkv.objectives.build import ObjectiveKind, foreign_keys, objective_kinds
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair
from qkv.text.special import NAMES, SpecialIds
from qkv.text.tokenizer import Tokenizer


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
        return LossReport(loss, nll, float(len(weights)))


class MaskedTokensOfPairs:
    """Masked tokens of both texts of a pair, which are read as one: <s> source </s> target </s>."""

    def __init__(self, tokens: MaskedTokens) -> None:
        self.tokens = tokens

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        return self.tokens.training_loss(model, self.joined(batch), update)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self.tokens.validation_loss(model, self.joined(batch))

    def joined(self, batch: Batch) -> Batch:
        """The same batch with both texts in its source."""
        special = self.tokens.special
        sides = ((batch.src, batch.src_keep), (batch.tgt_out, batch.tgt_weight > 0))
        both = [[row[keep].tolist() for row, keep in zip(ids, real, strict=True)] for ids, real in sides]
        src, keep = padded([[special.bos, *one, *other] for one, other in zip(*both, strict=True)], special.pad)
        return replace(batch, src=src.to(batch.src.device), src_keep=keep.to(batch.src.device))


class MaskedTokensKind(ObjectiveKind):
    """See `MaskedTokens`."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing", "masking"))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return masked_tokens(config, tokenizers.src, frequencies)

    def epoch_weight(self, config: ObjectiveConfig, model: ModelConfig, train: TextStore) -> int:
        """The chosen tokens."""
        return expected_choice(train.src_len - 1, config.masking.rate)


class MaskedTokensOfPairsKind(MaskedTokensKind):
    """See `MaskedTokensOfPairs`."""

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return MaskedTokensOfPairs(masked_tokens(config, tokenizers.src, frequencies))

    def epoch_weight(self, config: ObjectiveConfig, model: ModelConfig, train: PairStore) -> int:
        return expected_choice(train.src_len + train.tgt_len - 2, config.masking.rate)


def masked_tokens(config: ObjectiveConfig, tokenizer: Tokenizer, frequencies: Frequencies) -> MaskedTokens:
    """The objective of a recipe."""
    size, special = len(tokenizer), tokenizer.special
    smoothing = config.smoothing.build(size, special.pad, frequencies)
    return MaskedTokens(size, special, config.masking.rate, smoothing, no_smoothing(size))


def expected_choice(lengths: LengthArray, rate: float) -> int:
    """How many tokens are chosen of texts with these lengths."""
    return int(chosen_counts(torch.from_numpy(lengths.astype(np.int64)), rate).sum())


class LabelsKind(ObjectiveKind):
    """Cross-entropy of the labels of texts or words."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing",))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return config.build(len(tokenizers.tgt), tokenizers.tgt.special, frequencies)

    def epoch_weight(self, config: ObjectiveConfig, model: ModelConfig, train: PairStore) -> int:
        """The labels, which have no END."""
        return train.num_tgt_tokens - len(train)


objective_kinds.register("masked_tokens", MaskedTokensKind())
objective_kinds.register("masked_tokens_of_pairs", MaskedTokensOfPairsKind())
objective_kinds.register("text_labels", LabelsKind())
