"""DA-Transformer: the probability of all paths through the graph that emit the target."""

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.functional.parallel.glancing import choose_some, glance_counts
from qkv.kernels.dag import dag_alignment, dag_nll, dag_visits
from qkv.models.base import Model
from qkv.models.decoders.dag import ENDS, DagModel
from qkv.objectives.base import LossReport
from qkv.objectives.lattice import Lattice, LatticePairs
from qkv.objectives.parts import objectives
from qkv.text.special import SPECIAL, SpecialIds


class Dag(Lattice):
    """See `Lattice`; a vertex counts as often as paths to the target pass it.

    Smoothing at a vertex that none passes yet would keep it from ever learning a token, and so the graph from finding
    room for a second answer. Glancing compares and shows along the best path alone.
    """

    def pairs(self, model: Model, batch: Batch) -> LatticePairs:
        assert isinstance(model, DagModel)
        return _Pairs(model, batch, self.parts.special)


class _Pairs(LatticePairs):
    def __init__(self, model: DagModel, batch: Batch, special: SpecialIds) -> None:
        super().__init__(model, batch, special)
        self.model = model
        self.fits = self.lengths <= self.path_lengths - ENDS

    def loss(self, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        model, labels = self.model, self.at_each(self.targets)
        decoded = model.fill(tgt_in, self.source)
        picked, smooth = model.head.label_log_probs(decoded[self.keep], labels, smoothing.background)
        links = model.transitions(decoded, self.path_lengths)
        graph = self.spread(picked), links, self.lengths, self.path_lengths
        background = smooth.new_zeros(())
        if smoothing.confidence < 1:
            background = smooth @ dag_visits(*graph)[self.keep].to(smooth)
        return self.report(dag_nll(*graph), smoothing, background)

    @torch.no_grad()
    def glance(self, ratio: float) -> Tensor:
        model, labels = self.model, self.at_each(self.targets)
        decoded = model.fill(self.open, self.source)
        found = model.head.label_and_best_log_probs(decoded[self.keep], labels)
        said, best = (self.spread(rows) for rows in found)
        links = model.transitions(decoded, self.path_lengths)
        path = dag_alignment(said, links, self.lengths, self.path_lengths)
        right = said.gather(1, path[:, None, :])[:, 0]
        inside = (torch.arange(path.shape[1], device=path.device) < self.lengths[:, None]) & self.fits[:, None]
        wrong = inside & (right < best.gather(1, path))
        shown = choose_some(inside, glance_counts(wrong, ratio))
        # Tokens that are not shown are scattered to the first vertex, which always reads the start symbol.
        return self.open.scatter(1, path * shown, torch.where(shown, self.targets, SPECIAL.mask))


objectives.register("dag", Dag)
