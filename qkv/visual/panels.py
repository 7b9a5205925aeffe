"""Several square pictures of queries against keys, side by side in one SVG."""

from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape

from torch import Tensor

CELL = 5
GAP = 24
COLUMNS = 4
STYLE = "text{font:13px sans-serif;fill:#777}"


def draw_panels(panels: Mapping[str, Tensor], title: str, cells: Callable[[Tensor], list[str]]) -> str:
    """A standalone SVG: queries run down, keys to the right; `cells` draws a panel [Q, K] with squares of size 1."""
    side = CELL * max(len(panel) for panel in panels.values())
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * (side + GAP) + GAP, rows * (side + 2 * GAP) + GAP
    body = []
    for number, (name, panel) in enumerate(panels.items()):
        row, column = divmod(number, columns)
        x, y = GAP + column * (side + GAP), 2 * GAP + row * (side + 2 * GAP)
        body.append(f'<g transform="translate({x} {y})"><text y="-8">{escape(name)}</text>')
        body.append(f'<g transform="scale({CELL})">{"".join(cells(panel))}</g></g>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"])


def squares(where: Tensor) -> str:
    """The path of all cells [Q, K] that are True."""
    return "".join(f"M{column} {row}h1v1h-1z" for row, column in where.nonzero().tolist())
