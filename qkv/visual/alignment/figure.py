"""Alignments as a figure: a grid for each pair, source words across, target words down."""

from collections.abc import Mapping

from qkv.data.alignments.words import WordAlignment
from qkv.visual.svg import SAMPLE_HEIGHT, SAMPLE_WIDTH, Entry, document, fitted, text_width, xml_text

CELL, GAP, SIZE = 18, 28, 12
"""Pixels of a cell and between two grids, and the size of the words."""
LONGEST = 120
"""Pixels of a word; a longer one is shortened."""
COLOUR = "#2166ac"
STYLE = """
  .word { font-size: 12px }
  .name { font-size: 13px; font-weight: 600 }
  .grid { fill: none; stroke: #8886 }
"""


def draw_alignments(alignments: Mapping[str, WordAlignment], title: str) -> str:
    """A standalone SVG with a grid for each alignment, by its name; the darker a cell, the larger its weight."""
    body, width, top = [], 0, 0
    for name, alignment in alignments.items():
        drawn, size = _grid(name, alignment)
        body.append(f'<g transform="translate(0 {top})">{drawn}</g>')
        width, top = max(width, size[0]), top + size[1] + GAP
    sample = f'<rect width="{SAMPLE_WIDTH}" height="{SAMPLE_HEIGHT}" fill="{COLOUR}"/>'
    legend = [Entry(sample, "weight 1"), Entry("", "target words run down, source words to the right")]
    return document(title, legend, (width, max(top - GAP, 0)), STYLE, body)


def _grid(name: str, alignment: WordAlignment) -> tuple[str, tuple[int, int]]:
    """The drawing, from 0, 0, and its size."""
    sides = alignment.tgt_words, alignment.src_words
    rows, columns = ([fitted(word, LONGEST, SIZE) for word in words] for words in sides)
    left = round(max((text_width(word, SIZE) for word in rows), default=0)) + 8
    above = round(max((text_width(word, SIZE) for word in columns), default=0)) + 8 + 20
    parts = [f'<text class="name" y="13">{xml_text(name)}</text>']
    for place, word in enumerate(columns):
        x = left + CELL * place + CELL // 2 + 4
        parts.append(f'<text class="word" transform="translate({x} {above - 5}) rotate(-90)">{xml_text(word)}</text>')
    for row, word in enumerate(rows):
        y = above + CELL * row
        parts.append(f'<text class="word" x="{left - 5}" y="{y + 13}" text-anchor="end">{xml_text(word)}</text>')
        for column, weight in enumerate(alignment.weights[row].tolist()):
            if weight >= 0.01:
                tip = f"{alignment.src_words[column]} – {alignment.tgt_words[row]}: {weight:.2f}"
                parts.append(
                    f'<rect x="{left + CELL * column}" y="{y}" width="{CELL}" height="{CELL}" fill="{COLOUR}" '
                    f'fill-opacity="{min(weight, 1.0):.2f}"><title>{xml_text(tip)}</title></rect>'
                )
    width, height = CELL * len(columns), CELL * len(rows)
    parts.append(f'<rect class="grid" x="{left}" y="{above}" width="{width}" height="{height}"/>')
    return "".join(parts), (max(left + width, round(text_width(name, 15)) + 1), above + height)
