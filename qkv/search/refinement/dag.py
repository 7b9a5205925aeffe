"""Reading a graph of vertices: one path through it."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qkv.models.decoders.dag import ENDS, DagModel
from qkv.models.parallel.base import EncodedSource
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, cut, readers
from qkv.search.refinement.canvas import Pass
from qkv.text.special import SPECIAL

Numbers = npt.NDArray[np.floating[Any]]
PathName = Literal["greedy", "lookahead", "best"]


def greedy_path(said: Numbers, links: Numbers) -> list[int]:
    """v = argmax_v E_uv at each step."""
    return _along(links.argmax(axis=1).tolist())


def lookahead_path(said: Numbers, links: Numbers) -> list[int]:
    """v = argmax_v E_uv · max_y p_v(y) at each step."""
    return _along((links + _tokens_between(said)).argmax(axis=1).tolist())


def viterbi_path(said: Numbers, links: Numbers) -> list[int]:
    """The path with the highest log p / (tokens + 1), over all lengths."""
    scores, back = _by_length(said, links, len(said) - 2)
    closed = (scores + links[:, -1]) / np.arange(1, len(scores) + 1)[:, None]
    count, last = np.unravel_index(int(closed.argmax()), closed.shape)
    return _traced(back, int(count), int(last))


def dag_path_of_length(said: Numbers, links: Numbers, count: int) -> list[int]:
    """The most probable path with `count` tokens: D_n(v) = max_u D_{n-1}(u) + log E_uv + log p_v."""
    scores, back = _by_length(said, links, count)
    return _traced(back, count, int((scores[count] + links[:, -1]).argmax()))


def score_of(path: list[int], said: Numbers, links: Numbers) -> tuple[list[float], float]:
    """log p of each token with the link to it, and of the whole path, the link to its end included."""
    stops = [0, *path]
    tokens = (links[stops[:-1], path] + said[path]).tolist()
    return tokens, float(sum(tokens) + links[stops[-1], -1])


PATHS: dict[PathName, Callable[[Numbers, Numbers], list[int]]] = {
    "greedy": greedy_path,
    "lookahead": lookahead_path,
    "best": viterbi_path,
}


def _tokens_between(said: Numbers) -> Numbers:
    """The end is surely the end."""
    between = said.copy()
    between[-1] = 0.0
    return between


def _along(following: list[int]) -> list[int]:
    path: list[int] = []
    at = following[0]
    while at < len(following) - 1:
        path.append(at)
        at = following[at]
    return path


def _by_length(said: Numbers, links: Numbers, most: int) -> tuple[Numbers, list[npt.NDArray[np.intp]]]:
    """D [most + 1, vertices], and from which vertex each entry but those of the first row came."""
    scores = np.full((most + 1, len(said)), -np.inf)
    scores[0, 0] = 0.0
    back = []
    for count in range(1, most + 1):
        came = scores[count - 1][:, None] + links
        source = came.argmax(axis=0)
        scores[count] = came[source, np.arange(len(said))] + said
        # The last vertex only ends a path.
        scores[count, -1] = -np.inf
        back.append(source)
    return scores, back


def _traced(back: list[npt.NDArray[np.intp]], count: int, last: int) -> list[int]:
    path: list[int] = []
    for source in reversed(back[:count]):
        path.append(last)
        last = int(source[last])
    return path[::-1]


@readers.register
class DagReaderConfig(ReaderConfig):
    """For the decoder dag: one path through the graph."""

    kind: Literal["dag"] = "dag"
    path: PathName | None = None
    """How the path is chosen: the most probable link at each step (greedy), the most probable link and token together
    (lookahead), or the path with the highest mean log p (best). null: lookahead."""

    renamed: ClassVar = {"way": "path"}
    grid = ({"search.path": "greedy,lookahead,best"},)

    def problem(self, wanted: Wanted, passes: int) -> str | None:
        if self.path is not None and wanted.length is not None:
            return "a given length takes the best path of that length; leave out path"
        return None

    def build(self, model: DagModel, wanted: Wanted) -> "DagReader":
        return DagReader(model, wanted, self.path or "lookahead")


class DagReader(Reader):
    """The score is log p of the path: of its tokens and of its links."""

    def __init__(self, model: DagModel, wanted: Wanted, path: PathName = "lookahead") -> None:
        self.model = model
        self.wanted = wanted
        self.path: PathName = path
        self._links: tuple[Pass, Tensor] | None = None

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        lengths = self.model.canvas_lengths(source.lengths)
        self.wanted.check(lengths - ENDS, source)
        return lengths[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        links = self._links_of(filled)[row, :length, :length].cpu().double().numpy()
        said = filled.scores[row, :length].cpu().double().numpy()
        path = [] if self.wanted.length is not None else PATHS[self.path](said, links)
        if not self.wanted.plain:
            path = dag_path_of_length(said, links, min(self.wanted.of(len(path), limits), length - ENDS))
        scores, score = score_of(path, said, links)
        return [cut(filled.tokens[row, path].tolist(), scores, score, limits)]

    @torch.inference_mode()
    def _links_of(self, filled: Pass) -> Tensor:
        """Of all rows at once, when the first is read."""
        if self._links is None or self._links[0] is not filled:
            lengths = (filled.tokens != SPECIAL.pad).sum(dim=1)
            self._links = filled, self.model.transitions(filled.guess.decoded, lengths)
        return self._links[1]
