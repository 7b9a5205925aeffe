"""The passes of a non-autoregressive model over its canvas: what it filled, how sure it was, what it changed."""

import math
from dataclasses import dataclass

from qkv.data.batch import padded
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.refine import RefineConfig, rescorer_for
from qkv.decoding.refinement.canvas import Pass
from qkv.decoding.search import SearchTask
from qkv.models.decoders.ctc import CtcModel
from qkv.models.folder import SavedModel
from qkv.models.parallel import ParallelModel
from qkv.text.special import SPECIAL
from qkv.visual.beam_tree import xml_text
from qkv.visual.source import source_ids

COLUMN, ROW, MARGIN, LABEL = 74, 40, 16, 64
BLANK = "·"
STYLE = """
  svg { background: #fff; font: 12px system-ui, sans-serif; color: #222 }
  rect { fill: #1a7f4b; stroke: #98a2b3 }
  rect.fresh { stroke: #1a7f4b; stroke-width: 2.5 }
  text { fill: currentColor; text-anchor: middle }
  .label { text-anchor: end; opacity: .7 }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181d; color: #e6e6e6 }
    rect { fill: #3fb97a; stroke: #667085 }
    rect.fresh { stroke: #3fb97a }
  }
"""


@dataclass(frozen=True)
class Cell:
    """One position of a canvas after a pass."""

    label: str
    probability: float
    """Of the token, when it was filled in."""
    fresh: bool
    """Whether this pass filled it."""


def watch_passes(
    saved: SavedModel, model: ParallelModel, text: str, search: RefineConfig, max_src_tokens: int | None = None
) -> tuple[list[list[Cell]], Hypothesis]:
    """What stood on the canvas after each pass, and the output; of several lengths the most probable is shown."""
    passes: list[Pass] = []
    ids = source_ids(saved, text, max_src_tokens)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.within(saved.config.length_limit).limits(len(ids), model.tgt_embedder.positions.max_length)
    task = SearchTask(src, src_keep, SPECIAL, [limits])
    best = search.fill(model, task, passes.append, rescorer_for(search, saved))[0][0]
    blank = model.blank if isinstance(model, CtcModel) else None

    def label(token: int) -> str:
        if token == blank:
            return BLANK
        return "END" if token == SPECIAL.eos else saved.tokenizers.tgt.tokens([token])[0]

    rows = []
    for done in passes:
        length = int((done.tokens[0] != SPECIAL.pad).sum())
        columns = zip(*(part[0, :length].tolist() for part in (done.tokens, done.scores, done.fresh)), strict=True)
        rows.append([Cell(label(token), math.exp(score), fresh) for token, score, fresh in columns])
    return rows, best


def draw_passes(rows: list[list[Cell]], title: str) -> str:
    """A standalone SVG: a row for each pass, the darker the surer, outlined what the pass filled."""
    width = 2 * MARGIN + LABEL + COLUMN * max(map(len, rows))
    height = 2 * MARGIN + ROW * len(rows)
    body = [drawn for number, row in enumerate(rows) for drawn in _row(number, row)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{xml_text(title)}</title>",
            f"<style>{STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


def _row(number: int, row: list[Cell]) -> list[str]:
    top = MARGIN + number * ROW
    drawn = [f'<text class="label" x="{MARGIN + LABEL - 10}" y="{top + 20}">pass {number + 1}</text>']
    for place, cell in enumerate(row):
        x = MARGIN + LABEL + place * COLUMN
        kind = ' class="fresh"' if cell.fresh else ""
        label = cell.label if len(cell.label) < 10 else cell.label[:8] + "…"
        drawn.append(
            f'<rect{kind} x="{x}" y="{top}" width="{COLUMN - 8}" height="{ROW - 10}" rx="5" '
            f'fill-opacity="{0.55 * cell.probability:.2f}"><title>p = {cell.probability:.3f}</title></rect>'
            f'<text x="{x + (COLUMN - 8) // 2}" y="{top + 20}">{xml_text(label)}</text>'
        )
    return drawn
