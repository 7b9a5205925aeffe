"""Emit long and cut: the target, END, and END again up to the end of the canvas."""

import torch

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.models.base import Model
from qkv.models.decoders.canvas import CanvasConfig, CanvasModel
from qkv.models.heads.base import NO_CONTEXT
from qkv.models.parallel.base import open_canvas
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport, without_end
from qkv.objectives.parts import ObjectiveParts, objectives


class Canvas:
    """Σ of the cross-entropy of Y and its END + `tail` · Σ of that of every later END.

    A target that is longer than its canvas is cut and counted.
    """

    def __init__(self, decoder: CanvasConfig, parts: ObjectiveParts) -> None:
        self.decoder = decoder
        self.parts = parts

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        return self._loss(model, batch, self.parts.smoothing, self.decoder.tail)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self._loss(model, batch, self.parts.plain, 0.0)

    def _loss(self, model: Model, batch: Batch, smoothing: Smoothing, tail: float) -> LossReport:
        assert isinstance(model, CanvasModel)
        source = model.read(batch.src, batch.src_keep)
        targets, lengths = without_end(batch, self.parts.special.pad)
        sizes = model.canvas_lengths(source.lengths)
        tgt_in = open_canvas(sizes)
        at = torch.arange(tgt_in.shape[1], device=tgt_in.device)
        labels = torch.full_like(tgt_in, self.parts.special.eos)
        width = min(labels.shape[1], targets.shape[1])
        labels[:, :width] = targets[:, :width]
        labels = labels.masked_fill(at >= lengths[:, None], self.parts.special.eos)
        weights = torch.where(at <= lengths[:, None], 1.0, tail) * (at < sizes[:, None])
        counts = weights > 0
        decoded = model.fill(tgt_in, source)[counts]
        loss, nll = model.head.loss(decoded, NO_CONTEXT, labels[counts], weights[counts], smoothing)
        return LossReport(loss, nll, weights.sum(), (lengths > sizes).sum())


objectives.register("canvas", Canvas)
