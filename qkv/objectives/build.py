"""Which objective a model is trained with: its decoder decides."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from qkv.functional.losses import no_smoothing
from qkv.models.decoders.base import DecoderConfig
from qkv.models.decoders.canvas import CanvasConfig
from qkv.models.decoders.ctc import CtcConfig
from qkv.models.decoders.dag import DagConfig
from qkv.models.decoders.mask_predict import MaskPredictConfig
from qkv.models.decoders.nat import NatConfig
from qkv.objectives.base import Objective
from qkv.objectives.canvas import Canvas
from qkv.objectives.ctc import Ctc
from qkv.objectives.dag import Dag
from qkv.objectives.mask_predict import MaskPredict
from qkv.objectives.nat import Nat
from qkv.objectives.parts import Parts
from qkv.objectives.smoothing import ConfidencePenalty, Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text.special import SpecialIds

OBJECTIVES: dict[type[DecoderConfig], Callable[[Any, Parts], Objective]] = {
    CanvasConfig: Canvas,
    CtcConfig: Ctc,
    DagConfig: Dag,
    MaskPredictConfig: MaskPredict,
    NatConfig: Nat,
}
"""What each decoder that is not autoregressive is trained by."""


def decoder_problem(config: ObjectiveConfig, decoder: DecoderConfig) -> str | None:
    """What of the objective does not go with the decoder, if anything."""
    if config.glancing and not decoder.glances:
        return f"objective.glancing does not go with the decoder {decoder.kind}; leave it out, or use nat, ctc or dag"
    for name, value in (("noise", config.noise), ("consistency", config.consistency)):
        if value and not decoder.autoregressive:
            return f"objective.{name} is for the autoregressive decoder, not for {decoder.kind}; leave it out"
    if isinstance(decoder, CtcConfig | DagConfig) and isinstance(config.smoothing, ConfidencePenalty):
        return f"objective.smoothing confidence_penalty has no form for the decoder {decoder.kind}; use others or none"
    return None


def build_objective(
    config: ObjectiveConfig, decoder: DecoderConfig, vocab_size: int, special: SpecialIds, frequencies: Frequencies
) -> Objective:
    """`vocab_size` is that of the target's tokenizer."""
    if decoder.autoregressive:
        return TeacherForcing(config, vocab_size, special, frequencies)

    def of_all_ids() -> Tensor:
        return torch.nn.functional.pad(frequencies(), (0, decoder.own_ids))

    size = vocab_size + decoder.own_ids
    smoothing = config.smoothing.build(size, special.pad, of_all_ids)
    return OBJECTIVES[type(decoder)](decoder, Parts(smoothing, no_smoothing(size), config.glancing, special))
