"""Training of draft heads on the states of their model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from qkv.core.devices import widest_float
from qkv.data.batch import Batch
from qkv.functional.losses import no_smoothing
from qkv.kernels.cross_entropy import linear_cross_entropy
from qkv.kernels.ctc import ctc_fits, ctc_nll
from qkv.kernels.labels import label_log_probs
from qkv.models.base import Model
from qkv.models.draft_heads.blockwise import BlockwiseHeads
from qkv.models.draft_heads.source import SourceHead
from qkv.models.heads.linear import output_matrix
from qkv.models.transformer.model import require_transformer
from qkv.objectives.base import LossReport, Objective, without_end
from qkv.text.special import SpecialIds


class DraftHeadLoss:
    """The loss of a model's draft head; if the model is not frozen, beside the one that it is trained with itself."""

    def __init__(self, base: Objective, frozen: bool, special: SpecialIds) -> None:
        self.base = base
        self.frozen = frozen
        self.special = special

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        own = self._loss(model, batch)
        if self.frozen:
            return own
        with_it = self.base.training_loss(model, batch, update)
        # Both are sums over the same tokens, so that each counts as much as the other.
        return replace(with_it, sum=with_it.sum + own.sum)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        """That of the part which is trained; of a model that learns with it, its own."""
        return self._loss(model, batch) if self.frozen else self.base.validation_loss(model, batch)

    def _loss(self, model: Model, batch: Batch) -> LossReport:
        model = require_transformer(model, "model.draft")
        head, matrix = model.draft_head, output_matrix(model.head)
        weight = matrix.detach() if self.frozen else matrix
        if isinstance(head, BlockwiseHeads):
            with _at_rest(model, self.frozen):
                decoded = model.states(batch.src, batch.src_keep, batch.tgt_in)
            return _blockwise_loss(head, weight, decoded, batch)
        assert isinstance(head, SourceHead)
        with _at_rest(model, self.frozen):
            memory = model.encode(batch.src, batch.src_keep)
        return _source_loss(head, weight, memory, batch, self.special)


@contextmanager
def _at_rest(model: Model, frozen: bool) -> Iterator[None]:
    """A frozen model computes as it does when it is used: nothing is dropped, nothing learned."""
    training = model.training
    if frozen:
        model.eval()
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            yield
    finally:
        model.train(training)


def _blockwise_loss(head: BlockwiseHeads, weight: Tensor, decoded: Tensor, batch: Batch) -> LossReport:
    """The mean over the heads of the cross-entropy of their tokens."""
    counts = batch.tgt_weight > 0
    vectors = head(decoded[counts])
    plain = no_smoothing(len(weight))
    wide = widest_float(decoded.device)
    loss, nll = decoded.new_zeros(()), decoded.new_zeros((), dtype=wide)
    for ahead in range(1, head.heads + 1):
        targets, weights = _shifted(batch.tgt_out, ahead), _shifted(batch.tgt_weight, ahead)
        own, own_nll = linear_cross_entropy(vectors[ahead - 1], weight, None, targets[counts], plain, weights[counts])
        loss, nll = loss + own / head.heads, nll + own_nll.to(wide) / head.heads
    return LossReport(loss, nll, batch.tgt_weight.sum())


def _shifted(x: Tensor, by: int) -> Tensor:
    """What stands `by` places further on in each row [B, T]; zeros where there is nothing."""
    return torch.cat([x[:, by:], torch.zeros_like(x[:, :by])], dim=1)


def _source_loss(head: SourceHead, weight: Tensor, memory: Tensor, batch: Batch, special: SpecialIds) -> LossReport:
    """-log P(Y | X) of the paths that collapse to the target; targets that no path fits are left out and counted."""
    targets, lengths = without_end(batch, special.pad)
    keep = batch.src_keep.repeat_interleave(head.upsample, dim=1)
    path_lengths = keep.sum(dim=1)
    fits = ctc_fits(targets, lengths, path_lengths)
    if head.training and head.negatives:
        drawn = torch.randint(len(weight), (head.negatives,), device=targets.device)
        some = torch.cat([targets.flatten(), drawn]).unique()
        weight, targets = weight[some], torch.searchsorted(some, targets)
    labels = torch.cat([torch.full_like(lengths, len(weight))[:, None], targets], dim=1)
    rows = labels.repeat_interleave(path_lengths, dim=0)
    vectors = head(memory, batch.src_keep)[keep]
    with_blank = torch.cat([weight, head.blank])
    picked, _ = label_log_probs(vectors, with_blank, rows, with_blank.new_zeros(len(with_blank)))
    columns = picked.new_zeros(*keep.shape, picked.shape[1]).index_put((keep,), picked)
    nll = torch.where(fits, ctc_nll(columns, targets, lengths, path_lengths), 0.0).sum()
    tokens = lengths.clamp(min=1) * fits
    return LossReport(nll, nll.detach(), tokens.sum(), (~fits).sum())
