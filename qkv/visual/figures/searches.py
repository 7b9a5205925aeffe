"""How outputs were found: the tree of a beam, the passes over a canvas, the drafts of speculative decoding."""

from collections.abc import Sequence
from dataclasses import replace

from qkv.core.figures import LINE, SERIES
from qkv.visual.beam_tree import Node
from qkv.visual.drafts import DraftPass
from qkv.visual.figures.boxes import CHOSEN, FigureBox, Link, Words, boxes_figure
from qkv.visual.figures.canvas import PaperFigure
from qkv.visual.passes import CanvasCell
from qkv.visual.svg import column_width, fitted

ROW, HEIGHT, GAP = 44, 32, 22
"""Pixels of a row, of a box in it, and between two columns."""
NARROWEST, WIDEST, LETTERS = 52, 160, 13
LEFT = 52
"""Room for the number of a pass."""


def beam_figure(nodes: Sequence[Node], title: str) -> PaperFigure:
    """Time runs to the right, the best of each step is on top; green: the output, dashed: ended."""
    inside = column_width([label for node in nodes for label in (node.label, node.number)], LETTERS, NARROWEST, WIDEST)
    wide = inside + 12
    boxes, links = [], []
    for node in sorted(nodes, key=lambda node: node.best):
        x, y = node.step * (wide + GAP), node.place * ROW
        colour = CHOSEN if node.best else LINE
        if node.parent is not None:
            from_x, from_y = node.parent.step * (wide + GAP) + wide, node.parent.place * ROW
            width = 2.4 if node.best else 1.2
            links.append(Link(from_x, from_y + HEIGHT / 2, x, y + HEIGHT / 2, colour, width))
        box = FigureBox(x, y, wide, HEIGHT, fitted(node.label, inside, LETTERS), node.number, dashed=node.finished)
        boxes.append(replace(box, edge=CHOSEN, fill=CHOSEN, shade=0.15, thick=True) if node.best else box)
    return boxes_figure(boxes, links, [], title)


def passes_figure(rows: Sequence[Sequence[CanvasCell]], title: str) -> PaperFigure:
    """A row for each pass: the stronger the colour, the surer; outlined: filled by this pass."""
    inside = column_width([cell.label for row in rows for cell in row], LETTERS, NARROWEST, WIDEST)
    boxes = [
        FigureBox(
            *_corner(place, number, inside),
            inside + 12,
            HEIGHT,
            fitted(cell.label, inside, LETTERS),
            f"{cell.probability:.2f}",
            fill=CHOSEN,
            shade=0.5 * cell.probability,
            edge=CHOSEN if cell.fresh else LINE,
            thick=cell.fresh,
        )
        for number, row in enumerate(rows)
        for place, cell in enumerate(row)
    ]
    return boxes_figure(boxes, [], _numbered(len(rows)), title)


def drafts_figure(passes: Sequence[DraftPass], title: str) -> PaperFigure:
    """A row for each pass: green was drafted and right, blue is the model's own token, the rest was wrong."""
    tokens = [token for each in passes for token in (*each.right, each.said, *each.wrong)]
    inside = column_width(tokens, LETTERS, NARROWEST, WIDEST)
    boxes = []
    for number, each in enumerate(passes):
        right, said, wrong = len(each.right), len(each.right), len(each.right) + 1
        for place, token in enumerate((*each.right, each.said, *each.wrong)):
            corner = _corner(each.start + place, number, inside)
            colour = CHOSEN if place < right else SERIES[0] if place == said else LINE
            text = fitted(token, inside, LETTERS)
            struck = place >= wrong
            shade = 0.1 if struck else 0.2
            box = FigureBox(*corner, inside + 12, HEIGHT, text, fill=colour, shade=shade, edge=colour, struck=struck)
            boxes.append(box)
    return boxes_figure(boxes, [], _numbered(len(passes)), title)


def _corner(place: int, row: int, inside: int) -> tuple[float, float]:
    return LEFT + place * (inside + 20), row * ROW


def _numbered(passes: int) -> list[Words]:
    return [Words(0, number * ROW + HEIGHT / 2, f"pass {number + 1}") for number in range(passes)]
