"""Teacher forcing: predict every target token from the true ones before it, in one parallel pass."""

from dataclasses import replace

from pydantic import Field
from torch import Tensor

from qkv.config.base import Config
from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing, no_smoothing
from qkv.models.base import Model
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport
from qkv.objectives.consistency import AnyConsistency
from qkv.objectives.noise import AnyNoise
from qkv.objectives.parts import GlancingConfig
from qkv.objectives.smoothing import AnySmoothing, Frequencies, Others
from qkv.text.special import SpecialIds


class ObjectiveConfig(Config):
    """Cross-entropy of the target given the source."""

    smoothing: AnySmoothing = Others(amount=0.1)
    """Label smoothing, in one of its published forms."""
    noise: list[AnyNoise] = Field(default_factory=list)
    """Noise on the decoder's input, applied in order, in training only."""
    consistency: AnyConsistency | None = None
    """A second pass in training that should agree with the first; about twice the time per update."""
    glancing: GlancingConfig | None = None
    """Glancing training; for the decoders nat, ctc and dag."""


class TeacherForcing:
    """loss = sum over target tokens of -sum_v q_v log p_v, with q the smoothed target distribution."""

    def __init__(self, config: ObjectiveConfig, vocab_size: int, special: SpecialIds, frequencies: Frequencies) -> None:
        self.noise = [noise.build(special, vocab_size) for noise in config.noise]
        self.consistency = config.consistency.build(special) if config.consistency else None
        self.smoothing = config.smoothing.build(vocab_size, special.pad, frequencies)
        self.plain = no_smoothing(vocab_size)

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        """With noise, smoothing and consistency; `update` counts from 1 and sets the noise's warm-up."""
        tgt_in = batch.tgt_in
        for noise in self.noise:
            tgt_in = noise(tgt_in, update)
        if self.consistency:
            return self.consistency.loss(model, batch, tgt_in, self.smoothing)
        return self._loss(model, batch, tgt_in, self.smoothing)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        """Plain negative log-likelihood on the clean input."""
        return self._loss(model, batch, batch.tgt_in, self.plain)

    def _loss(self, model: Model, batch: Batch, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        states, context = model(replace(batch, tgt_in=tgt_in))
        counts = batch.tgt_weight > 0
        weights = batch.tgt_weight[counts]
        loss, nll = model.head.loss(states[counts], context.at(counts), batch.tgt_out[counts], weights, smoothing)
        return LossReport(loss, float(nll), float(weights.sum()))
