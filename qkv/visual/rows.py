"""Rows of boxes with a token in each, one row per pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.visual.svg import (
    SAMPLE_HEIGHT,
    SAMPLE_WIDTH,
    Entry,
    column_width,
    document,
    fitted,
    text_width,
    xml_text,
)

ROW, BOX, GAP, PADDING = 40, 30, 8, 7
"""Heights of a row and of a box, the gap between boxes, and the padding of a box, in pixels."""
NARROWEST, WIDEST = 40, 180
"""The width of the text in a box; a longer token is truncated."""
SIZE = 12
STYLE = """
  rect { fill: #f2f4f7; stroke: #98a2b3 }
  .token { font-size: 12px; text-anchor: middle }
  .pass { font-size: 12px; opacity: .8 }
  @media (prefers-color-scheme: dark) { rect { fill: #262a33; stroke: #667085 } }
"""


@dataclass(frozen=True)
class TokenCell:
    """A token at its place in a row."""

    token: str
    place: int
    kind: str
    """The class that a style is given for."""
    shade: float | None = None
    """How opaque the box is filled; None: fully."""
    tip: str | None = None
    """The tooltip; None: the token."""


def draw_rows(rows: Sequence[Sequence[TokenCell]], title: str, legend: Sequence[Entry], style: str) -> str:
    """A standalone SVG with a row for each pass; boxes are as wide as the longest token needs."""
    inside = column_width([cell.token for row in rows for cell in row], SIZE, NARROWEST, WIDEST)
    column = inside + 2 * PADDING + GAP
    left = round(text_width(f"pass {len(rows)}", SIZE)) + 12
    places = 1 + max((cell.place for row in rows for cell in row), default=0)
    width = left + column * places - GAP
    body = [
        drawn
        for number, row in enumerate(rows)
        for drawn in (
            f'<text class="pass" x="0" y="{number * ROW + 20}">pass {number + 1}</text>',
            *(_box(cell, left + cell.place * column, number * ROW, inside) for cell in row),
        )
    ]
    return document(title, legend, (width, ROW * len(rows)), STYLE + style, body)


def _box(cell: TokenCell, x: int, y: int, inside: int) -> str:
    width = inside + 2 * PADDING
    middle, token = x + width / 2, fitted(cell.token, inside, SIZE)
    return (
        f'<g class="{cell.kind}"><title>{xml_text(cell.token if cell.tip is None else cell.tip)}</title>'
        f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="5"{_opacity(cell.shade)}/>'
        f'<text class="token" x="{middle:g}" y="{y + 20}">{xml_text(token)}</text></g>'
    )


def sample(kind: str, shade: float | None = None) -> str:
    """A box for the legend."""
    size = f'width="{SAMPLE_WIDTH}" height="{SAMPLE_HEIGHT}"'
    return f'<g class="{kind}"><rect {size} rx="4"{_opacity(shade)}/></g>'


def _opacity(shade: float | None) -> str:
    return "" if shade is None else f' fill-opacity="{shade:.2f}"'
