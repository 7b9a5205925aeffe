"""CTC: the probability of all paths over the canvas that collapse to the target."""

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.functional.parallel.glancing import choose_some, glance_counts
from qkv.kernels.ctc import ctc_alignment, ctc_fits, ctc_nll
from qkv.models.base import Model
from qkv.models.decoders.ctc import CtcModel
from qkv.objectives.base import LossReport
from qkv.objectives.lattice import Lattice, LatticePairs
from qkv.objectives.parts import objectives
from qkv.text.special import SpecialIds


class Ctc(Lattice):
    """See `Lattice`; every path takes all positions, so all count. The blank may be shown as any token may."""

    def pairs(self, model: Model, batch: Batch) -> LatticePairs:
        assert isinstance(model, CtcModel)
        return _Pairs(model, batch, self.parts.special)


class _Pairs(LatticePairs):
    def __init__(self, model: CtcModel, batch: Batch, special: SpecialIds) -> None:
        super().__init__(model, batch, special)
        self.model = model
        self.fits = ctc_fits(self.targets, self.lengths, self.path_lengths)
        self.columns = torch.cat([torch.full_like(self.lengths, model.blank)[:, None], self.targets], dim=1)

    def loss(self, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        model, labels = self.model, self.at_each(self.columns)
        decoded = model.fill(tgt_in, self.source)[self.keep]
        picked, smooth = model.head.label_log_probs(decoded, labels, smoothing.background)
        nll = ctc_nll(self.spread(picked), self.targets, self.lengths, self.path_lengths)
        share = (self.tokens() / self.path_lengths).repeat_interleave(self.path_lengths)
        return self.report(nll, smoothing, smooth @ share.to(smooth))

    @torch.no_grad()
    def glance(self, ratio: float) -> Tensor:
        model, labels = self.model, self.at_each(self.columns)
        decoded = model.fill(self.open, self.source)[self.keep]
        logits, highest = (self.spread(found) for found in model.head.label_logits(decoded, labels))
        path = ctc_alignment(logits, self.targets, self.lengths, self.path_lengths, model.blank)
        column = (self.columns[:, None, :] == path[:, :, None]).int().argmax(dim=2, keepdim=True)
        wrong = self.keep & (logits.gather(2, column)[..., 0] < highest)
        counts = glance_counts(wrong, ratio) * self.fits
        return torch.where(choose_some(self.keep, counts), path, self.open)


objectives.register("ctc", Ctc)
