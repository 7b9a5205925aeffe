"""Reading a graph of vertices: one way through it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.refinement.base import Generator, Wanted, cut
from qkv.decoding.refinement.canvas import Pass
from qkv.decoding.refinement.ways import WAYS, score_of, way_of_length
from qkv.decoding.search import Limits
from qkv.models.decoders.dag import ENDS, DagModel
from qkv.models.parallel import Source
from qkv.text.special import SPECIAL


class DagGenerator(Generator):
    """The score is log p of the way: of its tokens and of its links."""

    has_ways = True

    def __init__(self, model: DagModel, wanted: Wanted) -> None:
        self.model = model
        self.wanted = wanted
        self._links: tuple[Pass, Tensor] | None = None

    def lengths(self, source: Source, limits: Sequence[Limits]) -> Tensor:
        lengths = self.model.canvas_lengths(source.lengths)
        self.wanted.check(lengths - ENDS, source)
        return lengths[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: Limits) -> list[Hypothesis]:
        links = self._links_of(filled)[row, :length, :length].cpu().double().numpy()
        said = filled.scores[row, :length].cpu().double().numpy()
        way = [] if self.wanted.length is not None else WAYS[self.wanted.way](said, links)
        if not self.wanted.plain:
            way = way_of_length(said, links, min(self.wanted.of(len(way), limits), length - ENDS))
        scores, score = score_of(way, said, links)
        return [cut(filled.tokens[row, way].tolist(), scores, score, limits)]

    @torch.inference_mode()
    def _links_of(self, filled: Pass) -> Tensor:
        """Of all rows at once, when the first is read."""
        if self._links is None or self._links[0] is not filled:
            lengths = (filled.tokens != SPECIAL.pad).sum(dim=1)
            self._links = filled, self.model.transitions(filled.guess.decoded, lengths)
        return self._links[1]
