"""CTC: the probability of all paths over the canvas that collapse to the target."""

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.glancing import choose_some, glance_counts
from qkv.functional.smoothing import Smoothing
from qkv.kernels.ctc import ctc_alignment, ctc_fits, ctc_nll
from qkv.kernels.label_log_probs import label_log_probs, label_logits
from qkv.models.decoders.ctc import CtcConfig, CtcModel
from qkv.models.parallel import Source, open_canvas
from qkv.models.seq2seq import Seq2Seq
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.parts import Parts
from qkv.objectives.report import LossReport
from qkv.objectives.targets import without_end
from qkv.text.special import SpecialIds


class Ctc:
    """loss = Σ over pairs of -confidence · log P(Y | X) + |Y| · mean over positions of the smoothing's cross-entropy.

    Tokens are counted without END, which CTC does not say. A target that no path of the canvas collapses to is left
    out and counted. With glancing, a second pass reads some tokens of the most probable path to Y; its loss is that of
    the whole target.
    """

    def __init__(self, decoder: CtcConfig, parts: Parts) -> None:
        self.parts = parts

    @with_auxiliary_losses
    def training_loss(self, model: Seq2Seq, batch: Batch, update: int) -> LossReport:
        assert isinstance(model, CtcModel)
        pairs, glancing = _Pairs(model, batch, self.parts.special), self.parts.glancing
        canvas = open_canvas(pairs.path_lengths)
        if glancing:
            canvas = pairs.glance(canvas, glancing.ratio_at(update))
        return pairs.loss(canvas, self.parts.smoothing)

    def validation_loss(self, model: Seq2Seq, batch: Batch) -> LossReport:
        assert isinstance(model, CtcModel)
        pairs = _Pairs(model, batch, self.parts.special)
        return pairs.loss(open_canvas(pairs.path_lengths), self.parts.plain)


class _Pairs:
    """The pairs of a batch, their sources read by the model."""

    def __init__(self, model: CtcModel, batch: Batch, special: SpecialIds) -> None:
        self.model = model
        self.source: Source = model.read(batch.src, batch.src_keep)
        self.targets, self.lengths = without_end(batch, special.pad)
        self.path_lengths = model.canvas_lengths(self.source.lengths)
        self.fits = ctc_fits(self.targets, self.lengths, self.path_lengths)
        self.columns = torch.cat([torch.full_like(self.lengths, model.blank)[:, None], self.targets], dim=1)

    def _labels(self) -> Tensor:
        """[N, 1 + U] for the N real positions of the canvases, row after row."""
        return self.columns.repeat_interleave(self.path_lengths, dim=0)

    def loss(self, canvas: Tensor, smoothing: Smoothing) -> LossReport:
        model, keep = self.model, _inside(canvas, self.path_lengths)
        decoded = model.fill(canvas, self.source)[keep]
        picked, smooth = label_log_probs(decoded, model.head.weight, self._labels(), smoothing.background)
        nll = ctc_nll(_spread(picked, keep), self.targets, self.lengths, self.path_lengths)
        nll = torch.where(self.fits, nll, 0.0).sum()
        tokens = self.lengths.clamp(min=1) * self.fits
        share = (tokens / self.path_lengths).repeat_interleave(self.path_lengths)
        loss = smoothing.confidence * nll - smooth @ share.to(smooth)
        return LossReport(loss, float(nll.detach()), float(tokens.sum()), int((~self.fits).sum()))

    @torch.no_grad()
    def glance(self, canvas: Tensor, ratio: float) -> Tensor:
        """The canvas with some tokens of the most probable path, the more the further the best guess is from it."""
        model, keep = self.model, _inside(canvas, self.path_lengths)
        decoded = model.fill(canvas, self.source)[keep]
        logits, highest = (_spread(found, keep) for found in label_logits(decoded, model.head.weight, self._labels()))
        path = ctc_alignment(logits, self.targets, self.lengths, self.path_lengths, model.blank)
        column = (self.columns[:, None, :] == path[:, :, None]).int().argmax(dim=2, keepdim=True)
        wrong = keep & (logits.gather(2, column)[..., 0] < highest)
        counts = glance_counts(wrong, ratio) * self.fits
        return torch.where(choose_some(keep, counts, torch.default_generator), path, canvas)


def _inside(canvas: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(canvas.shape[1], device=canvas.device) < lengths[:, None]


def _spread(rows: Tensor, keep: Tensor) -> Tensor:
    """[N, ...] -> [B, T, ...], zeros where `keep` is False."""
    return rows.new_zeros(*keep.shape, *rows.shape[1:]).index_put((keep,), rows)
