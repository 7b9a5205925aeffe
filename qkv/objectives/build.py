"""The objective of a model: what it learns from its kind of data.

`ModelConfig.learns` names it, and this registry has it. The objective `target`, of the models from a source to a
target, is chosen further by the decoder kind."""

from typing import Any, Protocol

import torch
from torch import Tensor

from qkv.config import Names
from qkv.core.errors import UsageError
from qkv.data.config import DataConfig
from qkv.functional.losses import no_smoothing
from qkv.models.config import ModelConfig, Seq2SeqConfig
from qkv.models.decoders.base import DecoderConfig
from qkv.objectives.attention.base import attention_problem
from qkv.objectives.base import Objective
from qkv.objectives.draft_heads import DraftHeadLoss
from qkv.objectives.noise import SwapConfig
from qkv.objectives.parts import ObjectiveParts, objectives
from qkv.objectives.smoothing import ConfidencePenalty, Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair
from qkv.text.special import SpecialIds


class ObjectiveKind(Protocol):
    """Builds an objective from a recipe; a base class, too, for the method that has a default."""

    def problem(self, config: ObjectiveConfig, model: Any) -> str | None:
        """Why the objective's settings do not go with the model; None: they do."""

    def build(
        self, config: ObjectiveConfig, model: Any, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective: ...

    def epoch_weight(self, config: ObjectiveConfig, model: Any, train: Any) -> int:
        """What an epoch of the store `train` adds to the target tokens of a run; by default all its target tokens."""
        count: int = train.num_tgt_tokens
        return count


objective_kinds = Names[ObjectiveKind]("kind of objective")


def foreign_keys(config: ObjectiveConfig, model: ModelConfig, known: tuple[str, ...]) -> str | None:
    """Why the objective's settings do not go with the model, if one of them is neither `known` nor its default."""
    default = ObjectiveConfig()
    for name in ObjectiveConfig.model_fields:
        if name not in known and getattr(config, name) != getattr(default, name):
            return f"objective.{name} is not for model.kind {model.kind}; leave it out"
    return None


def learning_problem(model: ModelConfig, data: DataConfig) -> str | None:
    """Why the model cannot learn from these data; None: it can."""
    if data.kind not in model.learns:
        return f"model.kind {model.kind} learns from data.kind {' or '.join(model.learns)}, not from {data.kind}"
    if data.packs and not model.reads_packed:
        return f"data.packed: model.kind {model.kind} reads one text a row; leave it out"
    return None


def objective_problem(config: ObjectiveConfig, model: ModelConfig, data_kind: str) -> str | None:
    """Why the objective's settings do not go with what the model learns from the data; None: they do."""
    return objective_kinds[model.learns[data_kind]].problem(config, model)


def packing_problem(config: ObjectiveConfig, data: DataConfig) -> str | None:
    """Why the objective's settings do not go with several texts a row; None: they do."""
    if not data.packs:
        return None
    if config.consistency is not None:
        return "objective.consistency reads one text a row; leave out data.packed"
    if any(isinstance(noise, SwapConfig) for noise in config.noise):
        return "objective.noise swap would move tokens from one text of a row to another; leave out data.packed"
    return None


def objective_of(
    config: ObjectiveConfig, model: ModelConfig, data_kind: str, tokenizers: TokenizerPair, frequencies: Frequencies
) -> Objective:
    """What trains a model on data of this kind."""
    return objective_kinds[model.learns[data_kind]].build(config, model, tokenizers, frequencies)


def decoder_problem(config: ObjectiveConfig, decoder: DecoderConfig) -> str | None:
    """Why the decoder does not support the objective's settings; None: it does."""
    if config.glancing and not decoder.glances:
        return f"objective.glancing does not go with the decoder {decoder.kind}; leave it out, or use nat, ctc or dag"
    for name in ("noise", "scheduled_sampling", "risk", "consistency", "attention"):
        if getattr(config, name) and not decoder.autoregressive:
            return f"objective.{name} is for the autoregressive decoder, not for {decoder.kind}; leave it out"
    if decoder.sums_paths and isinstance(config.smoothing, ConfidencePenalty):
        return f"objective.smoothing confidence_penalty has no form for the decoder {decoder.kind}; use others or none"
    return None


def build_objective(
    config: ObjectiveConfig, decoder: DecoderConfig, vocab_size: int, special: SpecialIds, frequencies: Frequencies
) -> Objective:
    """`vocab_size` is that of the target's tokenizer."""
    if decoder.autoregressive and decoder.kind not in objectives:
        teacher = config.build(vocab_size, special, frequencies)
        return config.risk.build(teacher, special) if config.risk else teacher

    if decoder.kind not in objectives:
        raise UsageError(f"the decoder {decoder.kind} has no objective; register one in the module that registers it")

    def of_all_ids() -> Tensor:
        return torch.nn.functional.pad(frequencies(), (0, decoder.own_ids))

    size = vocab_size + decoder.own_ids
    smoothing = config.smoothing.build(size, special.pad, of_all_ids)
    return objectives[decoder.kind](decoder, ObjectiveParts(smoothing, no_smoothing(size), config.glancing, special))


class TargetGivenSource(ObjectiveKind):
    """The target given the source, as the decoder kind models it."""

    def problem(self, config: ObjectiveConfig, model: Seq2SeqConfig) -> str | None:
        for name in ("masking", "spans"):
            if getattr(config, name) != ObjectiveConfig.model_fields[name].default:
                return f"objective.{name} is for texts; leave it out"
        return decoder_problem(config, model.decoder) or attention_problem(config.attention, model)

    def build(
        self, config: ObjectiveConfig, model: Seq2SeqConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        tgt = tokenizers.tgt
        objective = build_objective(config, model.decoder, len(tgt), tgt.special, frequencies)
        return objective if model.draft is None else DraftHeadLoss(objective, model.draft.frozen, tgt.special)


objective_kinds.register("target", TargetGivenSource())
