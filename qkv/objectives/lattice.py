"""The base class of objectives that sum over all paths of a canvas that emit the target."""

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.models.base import Model
from qkv.models.decoders.base import DecoderConfig
from qkv.models.parallel.base import EncodedSource, StretchedModel, open_canvas
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport, without_end
from qkv.objectives.parts import ObjectiveParts
from qkv.text.special import SpecialIds


class LatticePairs:
    """The pairs of a batch, their sources read by the model."""

    fits: Tensor
    """[B], whether any path emits the target."""

    def __init__(self, model: StretchedModel, batch: Batch, special: SpecialIds) -> None:
        self.source: EncodedSource = model.read(batch.src, batch.src_keep)
        self.targets, self.lengths = without_end(batch, special.pad)
        self.path_lengths = model.canvas_lengths(self.source.lengths)
        self.open = open_canvas(self.path_lengths)
        self.keep = self.open != special.pad

    def loss(self, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        raise NotImplementedError

    def glance(self, ratio: float) -> Tensor:
        """The canvas with some tokens of the most probable path: more, the more errors the first pass made."""
        raise NotImplementedError

    def at_each(self, columns: Tensor) -> Tensor:
        """[B, K] -> [N, K] for the N real positions of the canvases, row after row."""
        return columns.repeat_interleave(self.path_lengths, dim=0)

    def spread(self, rows: Tensor) -> Tensor:
        """[N, ...] -> [B, T, ...], zeros behind the canvases."""
        return rows.new_zeros(*self.keep.shape, *rows.shape[1:]).index_put((self.keep,), rows)

    def tokens(self) -> Tensor:
        """[B], how much each pair counts."""
        return self.lengths.clamp(min=1) * self.fits

    def report(self, nll: Tensor, smoothing: Smoothing, background: Tensor) -> LossReport:
        """Of -log P(Y) [B], and of Σ over positions of weight · Σ over tokens of background · log p."""
        total = torch.where(self.fits, nll, 0.0).sum()
        loss = smoothing.confidence * total - background
        return LossReport(loss, total.detach(), self.tokens().sum(), (~self.fits).sum())


class Lattice:
    """loss = Σ over pairs of -confidence · log P(Y | X) + |Y| · mean over positions of the smoothing's cross-entropy.

    The kind decides which positions count in the mean. Tokens are counted without END, which no path emits. A target
    that no path emits is left out and counted. With glancing, a second pass reads some tokens of the most
    probable path to Y; its loss is that of the whole target.
    """

    def __init__(self, decoder: DecoderConfig, parts: ObjectiveParts) -> None:
        self.parts = parts

    def pairs(self, model: Model, batch: Batch) -> LatticePairs:
        raise NotImplementedError

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        pairs, glancing = self.pairs(model, batch), self.parts.glancing
        tgt_in = pairs.glance(glancing.ratio_at(update)) if glancing else pairs.open
        return pairs.loss(tgt_in, self.parts.smoothing)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        pairs = self.pairs(model, batch)
        return pairs.loss(pairs.open, self.parts.plain)
