"""The tree that a beam search grows: what each step kept, what ended, and which path won."""

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape

from qkv.data.batch import padded
from qkv.decoding.beam import BeamConfig
from qkv.decoding.beam_group import Kept
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.search import SearchTask
from qkv.decoding.steps import ModelSteps
from qkv.models.folder import SavedModel
from qkv.text.special import SPECIAL
from qkv.visual.source import source_ids

COLUMN, ROW, BOX, MARGIN = 104, 46, 34, 16
NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML may hold, not even escaped."""
STYLE = """
  svg { background: #fff; font: 13px system-ui, sans-serif; color: #222 }
  rect { fill: #f2f4f7; stroke: #98a2b3 }
  path { fill: none; stroke: #c3c9d4; stroke-width: 1.5 }
  text { fill: currentColor; text-anchor: middle }
  .score { font-size: 10px; opacity: .7 }
  .ended rect { fill: #fff; stroke-dasharray: 4 3 }
  .best rect { fill: #d9f0e3; stroke: #1a7f4b; stroke-width: 2 }
  path.best { stroke: #1a7f4b; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181d; color: #e6e6e6 }
    rect { fill: #262a33; stroke: #667085 }
    path { stroke: #444b58 }
    .ended rect { fill: #16181d }
    .best rect { fill: #123d28; stroke: #3fb97a }
    path.best { stroke: #3fb97a }
  }
"""


@dataclass(eq=False)
class Node:
    """A token that a step kept, and through `parent` those before it."""

    label: str
    total: float
    """log p of the hypothesis up to here."""
    parent: "Node | None"
    step: int
    place: int
    """Its rank among what the step kept."""
    finished: bool = False
    best: bool = False


def grow_tree(
    saved: SavedModel, text: str, search: BeamConfig, max_src_tokens: int | None = None
) -> tuple[list[Node], Hypothesis]:
    """The nodes of the search for one text, parents first, and the hypothesis that won; its path is marked."""
    steps: list[list[Kept]] = []
    ids = source_ids(saved, text, max_src_tokens)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.within(saved.config.length_limit).limits(len(ids), saved.model.tgt_embedder.positions.max_length)
    task = SearchTask(src, src_keep, SPECIAL, [limits])
    best = search.run(ModelSteps(saved.model, search.needs_attention), task, lambda _, kept: steps.append(kept))[0][0]
    wanted = [*best.tokens, SPECIAL.eos] if best.ended else best.tokens
    root = Node("START", 0.0, None, 0, 0)
    nodes = [root]
    beams: dict[int, tuple[Node, tuple[int, ...]]] = dict.fromkeys(range(search.size), (root, ()))
    for number, kept in enumerate(steps, start=1):
        grown: dict[int, tuple[Node, tuple[int, ...]]] = {}
        for place, each in enumerate(kept):
            parent, before = beams[each.parent]
            label = "END" if each.token == SPECIAL.eos else saved.tokenizers.tgt.tokens([each.token])[0]
            node = Node(label, each.total, parent, number, place, each.beam is None)
            path = (*before, each.token)
            if node.finished and list(path) == wanted:
                _mark(node)
            if each.beam is not None:
                grown[each.beam] = (node, path)
            nodes.append(node)
        beams = grown
    return nodes, best


def _mark(node: Node | None) -> None:
    while node is not None:
        node.best = True
        node = node.parent


def draw_tree(nodes: list[Node], title: str) -> str:
    """A standalone SVG: time runs to the right, the best of each step is on top, dashed boxes have ended."""
    width = 2 * MARGIN + COLUMN * (1 + max(node.step for node in nodes))
    height = 2 * MARGIN + ROW * (1 + max(node.place for node in nodes))
    # The winning path is drawn last, over the others.
    edges = sorted((node for node in nodes if node.parent is not None), key=lambda node: node.best)
    body = [_edge(node) for node in edges] + [_box(node) for node in nodes]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{xml_text(title)}</title>",
            f"<style>{STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


def _corner(node: Node) -> tuple[int, int]:
    return MARGIN + node.step * COLUMN, MARGIN + node.place * ROW


def _edge(node: Node) -> str:
    assert node.parent is not None
    (x1, y1), (x2, y2) = _corner(node.parent), _corner(node)
    x1, y1, y2 = x1 + COLUMN - 20, y1 + BOX // 2, y2 + BOX // 2
    middle = (x1 + x2) // 2
    kind = ' class="best"' if node.best else ""
    return f'<path{kind} d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _box(node: Node) -> str:
    x, y = _corner(node)
    kinds = [name for name, holds in (("ended", node.finished), ("best", node.best)) if holds]
    center = x + (COLUMN - 20) // 2
    return (
        f'<g class="{" ".join(kinds)}"><rect x="{x}" y="{y}" width="{COLUMN - 20}" height="{BOX}" rx="6"/>'
        f'<text x="{center}" y="{y + 15}">{xml_text(_short(node.label))}</text>'
        f'<text class="score" x="{center}" y="{y + 28}">{node.total:.2f}</text></g>'
    )


def _short(label: str, most: int = 11) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def xml_text(text: str) -> str:
    """Escaped, and without what no XML may hold."""
    return escape(NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
