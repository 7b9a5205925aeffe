"""The length, and all tokens at once; with glancing, part of the target may be seen."""

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.functional.parallel.glancing import choose_some, glance_counts
from qkv.models.base import Model
from qkv.models.decoders.nat import NatConfig, NatModel
from qkv.models.heads.base import NO_CONTEXT
from qkv.models.parallel.base import EncodedSource, open_canvas
from qkv.models.parallel.length_predictor import length_classes
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport, without_end
from qkv.objectives.parts import ObjectiveParts, objectives


class LengthPairs:
    """The pairs of a batch, their sources read by a model that predicts lengths."""

    def __init__(self, model: NatModel, batch: Batch, parts: ObjectiveParts) -> None:
        self.model = model
        self.special = parts.special
        self.source: EncodedSource = model.read(batch.src, batch.src_keep)
        self.targets, self.lengths = without_end(batch, parts.special.pad)
        self.inside = torch.arange(self.targets.shape[1], device=self.targets.device) < self.lengths[:, None]
        # An empty target has a canvas too; its one position is never counted.
        self.open = open_canvas(self.lengths.clamp(min=1), self.targets.shape[1])

    def loss(self, tgt_in: Tensor, smoothing: Smoothing, length_weight: float) -> LossReport:
        """Σ over open positions of the cross-entropy + w · Σ over pairs of |Y| times that of the length.

        So the mean over tokens of the first and the mean over tokens of the second stand side by side, however an
        update is cut into batches.
        """
        counts = self.inside & (tgt_in == self.special.mask)
        decoded = self.model.fill(tgt_in, self.source)[counts]
        ones = torch.ones(len(decoded), device=decoded.device)
        loss, nll = self.model.head.loss(decoded, NO_CONTEXT, self.targets[counts], ones, smoothing)
        classes, clipped = length_classes(self.source.lengths, self.lengths)
        missed = F.cross_entropy(self.model.length_predictor(self.source).float(), classes, reduction="none")
        loss = loss + length_weight * (missed @ self.lengths.to(missed))
        return LossReport(loss, nll, float(len(decoded)), clipped.sum())

    @torch.no_grad()
    def glance(self, ratio: float) -> Tensor:
        """The open canvas with some target tokens: more, the more errors a first pass made."""
        decoded = self.model.fill(self.open, self.source)[self.inside]
        logits, highest = self.model.head.label_logits(decoded, self.targets[self.inside][:, None])
        wrong = torch.zeros_like(self.inside).index_put((self.inside,), logits[:, 0] < highest)
        shown = choose_some(self.inside, glance_counts(wrong, ratio))
        return torch.where(shown, self.targets, self.open)


class Nat:
    """Every token from the source alone; tokens shown by glancing have no loss."""

    def __init__(self, decoder: NatConfig, parts: ObjectiveParts) -> None:
        self.decoder = decoder
        self.parts = parts

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        assert isinstance(model, NatModel)
        pairs, glancing = LengthPairs(model, batch, self.parts), self.parts.glancing
        tgt_in = pairs.glance(glancing.ratio_at(update)) if glancing else pairs.open
        return pairs.loss(tgt_in, self.parts.smoothing, self.decoder.length_weight)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        assert isinstance(model, NatModel)
        pairs = LengthPairs(model, batch, self.parts)
        return pairs.loss(pairs.open, self.parts.plain, self.decoder.length_weight)


objectives.register("nat", Nat)
