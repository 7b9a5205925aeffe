"""Helpers for pictures: text that fits, a title, a legend, and a standalone SVG document."""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

MARGIN = 16
TITLE_SIZE, LEGEND_SIZE = 15, 12
BOLD = 1.16
"""How much wider bold letters are."""
SAMPLE_WIDTH, SAMPLE_HEIGHT = 22, 14
"""Of the small drawing beside the words of a legend."""
LONGEST_TITLE = 720
"""Pixels; a title that is longer is shortened, so that a long text does not make a picture wide."""
NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids, even escaped."""
# fmt: off
WIDTHS = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
)
"""Of the characters from space to ~ in DejaVu Sans, which is wider than other common fonts; thousandths of its size."""
# fmt: on
STYLE = """
  svg { background: #fff; font-family: system-ui, sans-serif; color: #222 }
  text { fill: currentColor }
  .title { font-size: 15px; font-weight: 600 }
  .legend { font-size: 12px }
  @media (prefers-color-scheme: dark) { svg { background: #16181d; color: #e6e6e6 } }
"""


class Entry(NamedTuple):
    """One line of a legend."""

    sample: str
    """SVG that is drawn in a box of SAMPLE_WIDTH x SAMPLE_HEIGHT from 0, 0; empty: only the words."""
    words: str


def text_width(text: str, size: float) -> float:
    """An upper bound on the width of a text in pixels, in common browser fonts."""
    return sum(map(_width, text)) * size / 1000


def _width(character: str) -> int:
    if " " <= character <= "~":
        return WIDTHS[ord(character) - ord(" ")]
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    # Letters of other scripts and ideographs; beyond the first plane there are mostly emoji, which are wider.
    return 1100 if character <= "\uffff" else 1400


def fitted(text: str, width: float, size: float) -> str:
    """The text, or its beginning and an ellipsis, so that it is not wider than `width`."""
    if text_width(text, size) <= width:
        return text
    kept, room = 0, width - text_width("…", size)
    while kept < len(text) and (room := room - text_width(text[kept], size)) >= 0:
        kept += 1
    return text[:kept] + "…"


def column_width(labels: Sequence[str], size: float, least: int, most: int) -> int:
    """Wide enough for every label, within limits; longer labels are to be `fitted`."""
    return min(most, max([least, *(round(text_width(label, size) + 0.5) for label in labels)]))


def xml_text(text: str) -> str:
    """Escaped, and without characters that XML forbids."""
    return escape(NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def document(title: str, legend: Sequence[Entry], size: tuple[int, int], style: str, body: Sequence[str]) -> str:
    """A standalone SVG: the title, the legend, and below them `body`, which is drawn in `size` pixels from 0, 0."""
    shown = fitted(title, LONGEST_TITLE, BOLD * TITLE_SIZE)
    widest = max((_entry_width(entry) for entry in legend), default=0)
    inner = max(size[0], widest, round(text_width(shown, BOLD * TITLE_SIZE) + 0.5))
    drawn, top = _legend(legend, inner, MARGIN + 2 * TITLE_SIZE)
    width, height = inner + 2 * MARGIN, top + size[1] + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{xml_text(title)}</title>",
            f"<style>{STYLE}{style}</style>",
            f'<text class="title" x="{MARGIN}" y="{MARGIN + TITLE_SIZE - 2}">{xml_text(shown)}</text>',
            *drawn,
            f'<g transform="translate({MARGIN} {top})">',
            *body,
            "</g>",
            "</svg>\n",
        ]
    )


def _entry_width(entry: Entry) -> int:
    sample = SAMPLE_WIDTH + 6 if entry.sample else 0
    return sample + round(text_width(entry.words, LEGEND_SIZE) + 0.5)


def _legend(entries: Sequence[Entry], width: int, top: int) -> tuple[list[str], int]:
    """The entries beside each other in as many lines as they need, and where the drawing begins below them."""
    drawn, x, y = [], 0, top
    for entry in entries:
        own = _entry_width(entry)
        if x and x + own > width:
            x, y = 0, y + SAMPLE_HEIGHT + 8
        words = SAMPLE_WIDTH + 6 if entry.sample else 0
        drawn.append(
            f'<g transform="translate({MARGIN + x} {y})">{entry.sample}'
            f'<text class="legend" x="{words}" y="{SAMPLE_HEIGHT - 3}">{xml_text(entry.words)}</text></g>'
        )
        x += own + 24
    return drawn, y + SAMPLE_HEIGHT + MARGIN if entries else top
