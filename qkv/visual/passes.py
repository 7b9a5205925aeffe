"""The passes of a non-autoregressive model over its canvas: tokens, probabilities and changes."""

import math
from dataclasses import dataclass

from qkv.data.batch import padded
from qkv.models.decoders.ctc import CtcModel
from qkv.models.saved.folder import SavedModel
from qkv.search.base import SearchTask
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import SearchedModels
from qkv.search.refinement.canvas import Pass
from qkv.search.refinement.search import RefineConfig
from qkv.text.special import SPECIAL
from qkv.visual.rows import TokenCell, draw_rows, sample
from qkv.visual.source import source_ids
from qkv.visual.svg import Entry

BLANK = "·"
STYLE = """
  rect { fill: #1a7f4b }
  .fresh rect { stroke: #1a7f4b; stroke-width: 2.5 }
  @media (prefers-color-scheme: dark) {
    rect { fill: #3fb97a }
    .fresh rect { stroke: #3fb97a }
  }
"""


@dataclass(frozen=True)
class CanvasCell:
    """One position of a canvas after a pass."""

    token: int
    label: str
    probability: float
    """Of the token, when it was filled in."""
    fresh: bool
    """Whether this pass filled it."""


def watch_passes(
    saved: SavedModel, text: str, search: RefineConfig, max_src_tokens: int | None = None
) -> tuple[list[list[CanvasCell]], Hypothesis]:
    """The canvas after each pass, and the output; of several lengths the most probable is shown."""
    model, passes = saved.model, list[Pass]()
    ids = source_ids(saved, text, max_src_tokens)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.within(saved.config.length_limit).limits(len(ids), model.limits.tgt)
    task = SearchTask(src, src_keep, SPECIAL, [limits])
    best = search.build(saved, passes.append).search(task, SearchedModels([model]))[0][0]
    blank = model.blank if isinstance(model, CtcModel) else None

    def label(token: int) -> str:
        if token == blank:
            return BLANK
        return "END" if token == SPECIAL.eos else saved.tokenizers.tgt.tokens([token])[0]

    rows = []
    for done in passes:
        length = int((done.tokens[0] != SPECIAL.pad).sum())
        columns = zip(*(part[0, :length].tolist() for part in (done.tokens, done.scores, done.fresh)), strict=True)
        rows.append([CanvasCell(token, label(token), math.exp(score), fresh) for token, score, fresh in columns])
    return rows, best


def draw_passes(rows: list[list[CanvasCell]], title: str) -> str:
    """A standalone SVG: a row for each pass, the darker the surer, outlined what the pass filled."""
    cells = [
        [
            TokenCell(cell.label, place, "fresh" if cell.fresh else "", _shade(cell.probability), _tip(cell))
            for place, cell in enumerate(row)
        ]
        for row in rows
    ]
    return draw_rows(cells, title, LEGEND, STYLE)


def _shade(probability: float) -> float:
    return 0.55 * probability


def _tip(cell: CanvasCell) -> str:
    return f"{cell.label}: p = {cell.probability:.3f}"


LEGEND = (
    Entry(sample("", _shade(0.1)), "p = 0.1"),
    Entry(sample("", _shade(0.5)), "p = 0.5"),
    Entry(sample("", _shade(1.0)), "p = 1: the darker, the surer"),
    Entry(sample("fresh", 0.0), "filled by this pass"),
)
