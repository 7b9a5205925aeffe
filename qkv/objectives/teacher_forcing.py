"""Teacher forcing: predict every target token from the true ones before it, in one parallel pass."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field
from torch import Tensor

from qkv.config.base import Config
from qkv.data.batch import Batch
from qkv.data.config import as_list
from qkv.functional.losses import Smoothing, no_smoothing
from qkv.models.base import Model
from qkv.objectives.attention import AnyAttentionLoss, AttentionLoss
from qkv.objectives.attention.base import adding_attention_losses
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport
from qkv.objectives.consistency import AnyConsistency, Consistency
from qkv.objectives.noise import AnyNoise, Noise
from qkv.objectives.parts import GlancingConfig, MaskingConfig, SpansConfig
from qkv.objectives.risk import AnyRisk
from qkv.objectives.scheduled_sampling import AnyScheduledSampling, ScheduledSampling
from qkv.objectives.smoothing import AnySmoothing, Frequencies, Others
from qkv.text.special import SpecialIds


class ObjectiveConfig(Config):
    """Cross-entropy of the target given the source."""

    smoothing: AnySmoothing = Others(amount=0.1)
    """Label smoothing, in one of its published forms."""
    noise: list[AnyNoise] = Field(default_factory=list)
    """Noise on the decoder's input, applied in order, in training only."""
    scheduled_sampling: AnyScheduledSampling | None = None
    """Some tokens of the decoder's input become the model's own predictions, in training only; one pass more."""
    risk: AnyRisk | None = None
    """Minimum-risk training of a model that is trained already: the expected cost of its own outputs."""
    consistency: AnyConsistency | None = None
    """A second pass in training that should agree with the first; about twice the time per update."""
    attention: Annotated[tuple[AnyAttentionLoss, ...], BeforeValidator(as_list)] = ()
    """Losses on the weights of cross-attention, in training only: one, or a list of them."""
    glancing: GlancingConfig | None = None
    """Glancing training; for the decoders nat, ctc and dag."""
    masking: MaskingConfig = MaskingConfig()
    """Which tokens are masked; for masked_lm."""
    spans: SpansConfig = SpansConfig()
    """Which spans are masked; for text_to_text on texts."""

    def build(self, vocab_size: int, special: SpecialIds, frequencies: Frequencies) -> "TeacherForcing":
        """Teacher forcing, without `risk`; see `build_objective` for what a model is trained with."""
        return TeacherForcing(
            self.smoothing.build(vocab_size, special.pad, frequencies),
            [noise.build(special, vocab_size) for noise in self.noise],
            self.consistency.build(special) if self.consistency else None,
            [loss.build() for loss in self.attention],
            self.scheduled_sampling.build(special) if self.scheduled_sampling else None,
        )


class TeacherForcing:
    """loss = sum over target tokens of -sum_v q_v log p_v, with q the smoothed target distribution.

    Args:
        smoothing: The target distribution in training; validation uses plain cross-entropy.
        noise: Noise on the decoder's input, applied in order, in training only.
        consistency: A second pass in training that should agree with the first.
        attention: Losses on the weights of cross-attention, in training only.
        sampling: Replaces tokens of the decoder's input, after the noise, by the model's predictions, in training only.

    Example:
        >>> from qkv.functional.losses import others
        >>> from qkv.objectives.noise import Drop
        >>> objective = TeacherForcing(others(8000, 0.1), noise=[Drop(rate=0.1)])
    """

    def __init__(
        self,
        smoothing: Smoothing,
        noise: Sequence[Noise] = (),
        consistency: Consistency | None = None,
        attention: Sequence[AttentionLoss] = (),
        sampling: ScheduledSampling | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.noise = noise
        self.consistency = consistency
        self.attention = attention
        self.sampling = sampling
        self.plain = no_smoothing(len(smoothing.background))

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        """With all parts; `update` counts from 1 and sets how strong each of them is."""
        tgt_in = batch.tgt_in
        for noise in self.noise:
            tgt_in = noise(tgt_in, update)
        noisy = replace(batch, tgt_in=tgt_in)
        mixing = self.sampling.mixing(model, noisy, update) if self.sampling else nullcontext(tgt_in)
        with mixing as tgt_in, adding_attention_losses(self.attention, model, batch, update):
            if self.consistency:
                return self.consistency.loss(model, batch, tgt_in, self.smoothing)
            return self._loss(model, batch, tgt_in, self.smoothing)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        """Plain negative log-likelihood on the clean input."""
        return self._loss(model, batch, batch.tgt_in, self.plain)

    def _loss(self, model: Model, batch: Batch, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        states, context = model(replace(batch, tgt_in=tgt_in))
        counts = batch.counted
        weights = batch.tgt_weight[counts]
        loss, nll = model.head.loss(states[counts], context.at(counts), batch.tgt_out[counts], weights, smoothing)
        return LossReport(loss, nll, weights.sum())
