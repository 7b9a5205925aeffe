"""Several square pictures of queries against keys, side by side in one SVG."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from qkv.visual.svg import Entry, document, text_width, xml_text

SIDE = 160
"""Pixels of a panel, about: a cell has a whole number of them, and two at least."""
GAP, NAME = 24, 26
"""Between two panels, and above a panel for its name."""
COLUMNS = 4
NAME_SIZE = 13
STYLE = """
  .name { font-size: 13px }
"""


def draw_panels(
    panels: Mapping[str, Tensor], title: str, legend: Sequence[Entry], cells: Callable[[Tensor], list[str]]
) -> str:
    """A standalone SVG: queries run down, keys to the right; `cells` draws a panel [Q, K] with squares of size 1."""
    longest = max(len(panel) for panel in panels.values())
    cell = max(2, round(SIDE / longest))
    side = cell * longest
    across = max(side, *(round(text_width(name, NAME_SIZE) + 0.5) for name in panels)) + GAP
    down = NAME + side + GAP
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    axes = Entry("", "queries run down, keys to the right")
    body = []
    for number, (name, panel) in enumerate(panels.items()):
        row, column = divmod(number, columns)
        body.append(f'<g transform="translate({column * across} {row * down + NAME})">')
        body.append(f'<text class="name" y="-8">{xml_text(name)}</text>')
        body.append(f'<g transform="scale({cell})">{"".join(cells(panel))}</g></g>')
    size = columns * across - GAP, rows * down - GAP
    return document(title, [*legend, axes], size, STYLE, body)


def squares(where: Tensor) -> str:
    """The path of all cells [Q, K] that are True."""
    return "".join(f"M{column} {row}h1v1h-1z" for row, column in where.nonzero().tolist())
