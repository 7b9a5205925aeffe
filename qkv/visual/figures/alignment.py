"""Alignments: a matrix of words for each pair, source words across, target words down."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qkv.core.figures import SERIES
from qkv.data.alignments.words import WordAlignment
from qkv.visual.figures.canvas import CELL, LETTER, PaperFigure, paint_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 40
"""Pixels between two pairs, where the name of one stands."""


def alignment_figure(alignments: Mapping[str, WordAlignment], title: str) -> PaperFigure:
    """One pair below the other; the darker a cell, the larger its weight."""
    pairs = {name: one for name, one in alignments.items() if one.weights.size}
    lefts = {name: _room(one.tgt_words) for name, one in pairs.items()}
    tops = {name: _room(one.src_words) for name, one in pairs.items()}
    heights = [tops[name] + CELL * len(one.tgt_words) + GAP for name, one in pairs.items()]
    left = max(lefts.values(), default=0)
    width = left + max((CELL * len(one.src_words) for one in pairs.values()), default=CELL) + 20
    height = sum(heights) or GAP

    def paint(axes: "Axes") -> None:
        axes.axis("off")
        top = height
        for name, one in pairs.items():
            rows, columns = len(one.tgt_words), len(one.src_words)
            top -= tops[name] + CELL * rows
            inner = axes.inset_axes((left / width, top / height, CELL * columns / width, CELL * rows / height))
            top -= GAP
            paint_matrix(inner, one.weights.astype(float), one.tgt_words, one.src_words, SERIES[0])
            inner.set_xlabel(name)

    return PaperFigure(paint, width, height, title)


def _room(words: list[str]) -> int:
    """Pixels for the labels of one side."""
    return round(LETTER * max(map(len, words))) + 12
