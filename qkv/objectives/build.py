"""The objective of a model, by its decoder kind."""

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.functional.losses import no_smoothing
from qkv.models.decoders.base import DecoderConfig
from qkv.objectives.base import Objective
from qkv.objectives.parts import ObjectiveParts, objectives
from qkv.objectives.smoothing import ConfidencePenalty, Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.special import SpecialIds


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
