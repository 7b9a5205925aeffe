"""The tree of a beam search: the hypotheses kept at each step, those that ended, and the best path."""

from dataclasses import dataclass

from qkv.data.batch import padded
from qkv.models.saved.folder import SavedModel
from qkv.search.base import SearchTask
from qkv.search.beam import BeamConfig, Kept
from qkv.search.capacity import require_search_memory
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import SearchedModels
from qkv.text.special import SPECIAL
from qkv.visual.source import source_ids
from qkv.visual.svg import SAMPLE_HEIGHT, SAMPLE_WIDTH, Entry, column_width, document, fitted, xml_text

ROW, BOX, GAP, PADDING = 46, 34, 24, 8
"""Heights of a row and of a box, the gap between columns, and the padding of a box, in pixels."""
NARROWEST, WIDEST = 56, 200
"""The width of the text in a box; a longer token is truncated."""
LABEL_SIZE, SCORE_SIZE = 13, 10
STYLE = """
  rect { fill: #f2f4f7; stroke: #98a2b3 }
  path { fill: none; stroke: #c3c9d4; stroke-width: 1.5 }
  .label { font-size: 13px; text-anchor: middle }
  .score { font-size: 10px; text-anchor: middle; opacity: .8 }
  .ended rect { fill: #fff; stroke-dasharray: 4 3 }
  .best rect { fill: #d9f0e3; stroke: #1a7f4b; stroke-width: 2 }
  path.best { stroke: #1a7f4b; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    rect { fill: #262a33; stroke: #667085 }
    path { stroke: #444b58 }
    .ended rect { fill: #16181d }
    .best rect { fill: #123d28; stroke: #3fb97a }
    path.best { stroke: #3fb97a }
  }
"""


@dataclass(eq=False)
class Node:
    """A token kept by a step; `parent` leads to the preceding ones."""

    label: str
    total: float
    """log p of the hypothesis up to here."""
    parent: "Node | None"
    step: int
    place: int
    """Its rank among what the step kept."""
    finished: bool = False
    best: bool = False
    score: float | None = None
    """What ranks it once it has ended: log p over the length penalty."""

    @property
    def number(self) -> str:
        """What ranks it, in words that fit into its box."""
        return f"{self.total:.2f}" if self.score is None else f"score {self.score:.2f}"


def grow_tree(
    saved: SavedModel, text: str, search: BeamConfig, max_src_tokens: int | None = None
) -> tuple[list[Node], Hypothesis]:
    """The nodes of the search for one text, parents first, and the best hypothesis, whose path is marked."""
    require_search_memory(search, saved.config, len(saved.tokenizers.tgt))
    steps: list[list[Kept]] = []
    ids = source_ids(saved, text, max_src_tokens)
    words = saved.tokenizers.output_of(text, ids)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.within(saved.config.length_limit).limits(len(ids), saved.model.limits.tgt)
    task = SearchTask(src, src_keep, SPECIAL, [limits])
    best = search.beam_search(lambda _, kept: steps.append(kept)).search(task, SearchedModels([saved.model]))[0][0]
    wanted = [*best.tokens, SPECIAL.eos] if best.ended else best.tokens
    root = Node("START", 0.0, None, 0, 0)
    nodes = [root]
    beams: dict[int, tuple[Node, tuple[int, ...]]] = dict.fromkeys(range(search.size), (root, ()))
    for number, kept in enumerate(steps, start=1):
        grown: dict[int, tuple[Node, tuple[int, ...]]] = {}
        for place, each in enumerate(kept):
            parent, before = beams[each.parent]
            label = "END" if each.token == SPECIAL.eos else words.tokens([each.token])[0]
            node = Node(label, each.total, parent, number, place, each.beam is None)
            if node.finished and not search.coverage_penalty:
                # With a coverage penalty it also depends on attention, which is not told here.
                node.score = each.total / search.length_penalty.at(number)
            path = (*before, each.token)
            if node.finished and list(path) == wanted:
                _mark(node)
                node.score = best.score
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
    widest_number = column_width([node.number for node in nodes], SCORE_SIZE, NARROWEST, WIDEST)
    inside = column_width([node.label for node in nodes], LABEL_SIZE, widest_number, WIDEST)
    box = inside + 2 * PADDING
    width = (box + GAP) * (1 + max(node.step for node in nodes)) - GAP
    height = ROW * (1 + max(node.place for node in nodes))
    # The winning path is drawn last, over the others.
    edges = sorted((node for node in nodes if node.parent is not None), key=lambda node: node.best)
    body = [_edge(node, box) for node in edges] + [_box(node, box, inside) for node in nodes]
    return document(title, LEGEND, (width, height), STYLE, body)


def _sample(kind: str) -> str:
    return f'<g class="{kind}"><rect width="{SAMPLE_WIDTH}" height="{SAMPLE_HEIGHT}" rx="4"/></g>'


LEGEND = (
    Entry(_sample(""), "kept by a step, the best on top: log p so far"),
    Entry(_sample("ended"), "ended or cut: score = log p / length penalty"),
    Entry(_sample("best"), "the path with the best score"),
)


def _corner(node: Node, box: int) -> tuple[int, int]:
    return node.step * (box + GAP), node.place * ROW


def _edge(node: Node, box: int) -> str:
    assert node.parent is not None
    (x1, y1), (x2, y2) = _corner(node.parent, box), _corner(node, box)
    x1, y1, y2 = x1 + box, y1 + BOX // 2, y2 + BOX // 2
    middle = (x1 + x2) // 2
    kind = ' class="best"' if node.best else ""
    return f'<path{kind} d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _box(node: Node, box: int, inside: int) -> str:
    x, y = _corner(node, box)
    kinds = [name for name, holds in (("ended", node.finished), ("best", node.best)) if holds]
    center = x + box // 2
    return (
        f'<g class="{" ".join(kinds)}"><title>{xml_text(node.label)}: log p {node.total:.4f}</title>'
        f'<rect x="{x}" y="{y}" width="{box}" height="{BOX}" rx="6"/>'
        f'<text class="label" x="{center}" y="{y + 15}">{xml_text(fitted(node.label, inside, LABEL_SIZE))}</text>'
        f'<text class="score" x="{center}" y="{y + 28}">{node.number}</text></g>'
    )
