"""Cross-entropy of the class of each example."""

import torch

from qkv.data.images.batch import ImageBatch
from qkv.functional.losses import Smoothing, no_smoothing, smoothed_cross_entropy
from qkv.models.base import Model
from qkv.models.vision.config import VisionConfig
from qkv.models.vision.model import VisionModel
from qkv.objectives.base import LossReport
from qkv.objectives.build import ObjectiveKind, foreign_keys, objective_kinds
from qkv.objectives.smoothing import Frequencies, OthersButPad
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair


class ClassCrossEntropy:
    """Σ -Σ_c q_c log p_c over the examples, with q the smoothed distribution of the classes."""

    def __init__(self, smoothing: Smoothing) -> None:
        self.smoothing = smoothing
        self.plain = no_smoothing(len(smoothing.background))

    def training_loss(self, model: Model, batch: ImageBatch, update: int) -> LossReport:
        return self._loss(model, batch, self.smoothing)

    @torch.no_grad()
    def validation_loss(self, model: Model, batch: ImageBatch) -> LossReport:
        return self._loss(model, batch, self.plain)

    def _loss(self, model: Model, batch: ImageBatch, smoothing: Smoothing) -> LossReport:
        assert isinstance(model, VisionModel)
        log_probs = torch.log_softmax(model.class_logits(batch).float(), dim=-1)
        loss, nll = smoothed_cross_entropy(log_probs, batch.labels, smoothing)
        return LossReport(loss, nll, float(len(batch)))


class ClassGivenImage(ObjectiveKind):
    """The class of an image."""

    def problem(self, config: ObjectiveConfig, model: VisionConfig) -> str | None:
        if isinstance(config.smoothing, OthersButPad):
            return "objective.smoothing others_but_pad is for tokens, and classes have no padding; use others"
        return foreign_keys(config, model, ("smoothing",))

    def build(
        self, config: ObjectiveConfig, model: VisionConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> ClassCrossEntropy:
        return ClassCrossEntropy(config.smoothing.build(model.classes, tokenizers.tgt.special.pad, frequencies))


objective_kinds.register("class", ClassGivenImage())
