"""Where the heads of an attention that is a convolution look: one small map for each cell of its kernel."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

import torch
from torch import Tensor

from qkv.visual.convolution import QuadraticAttention

PIXEL, GAP, MARGIN = 11, 14, 20
STYLE = """
  svg { background: #fff; font: 12px system-ui, sans-serif; color: #222 }
  text { fill: currentColor }
  .grid { fill: none; stroke: #c3c9d4; stroke-width: .06 }
  .seen { fill: #1a7f4b }
  .query { fill: none; stroke: #c2410c; stroke-width: .16 }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181d; color: #e6e6e6 }
    .grid { stroke: #444b58 }
    .seen { fill: #3fb97a }
    .query { stroke: #fb923c }
  }
"""


@torch.no_grad()
def head_maps(attention: QuadraticAttention, size: int) -> Tensor:
    """[H, size, size]: the weights of the middle pixel of a picture of that size, without its padding."""
    (before, left), (after, right) = attention.frame.before, attention.frame.after
    sizes = (before + size + after, left + size + right)
    rows, columns = attention.frame.queries(sizes)
    middle = (len(rows) // 2) * len(columns) + len(columns) // 2
    weights: Tensor = attention.weights(sizes)[:, middle].unflatten(-1, sizes)
    return weights[:, before : before + size, left : left + size]


def draw_heads(blocks: Mapping[str, Tensor], columns: int, title: str) -> str:
    """A standalone SVG; each block [H, rows, columns of pixels] is laid out as the cells of the kernel are.

    Green is weight, and a frame shows where the query stands.
    """
    heads, size = (max(maps.shape[axis] for maps in blocks.values()) for axis in (0, 1))
    step = size * PIXEL + GAP
    block_width, block_height = columns * step + GAP, -(-heads // columns) * step
    body = []
    for number, (name, maps) in enumerate(blocks.items()):
        x = MARGIN + number * (block_width + GAP)
        body.append(f'<text x="{x}" y="{MARGIN}">{escape(name)}</text>')
        for head, weights in enumerate(maps):
            row, column = divmod(head, columns)
            place = f"translate({x + column * step} {MARGIN + GAP + row * step}) scale({PIXEL})"
            body.append(f'<g transform="{place}">{_map(weights)}</g>')
    width = 2 * MARGIN + len(blocks) * (block_width + GAP) - 3 * GAP
    height = 2 * MARGIN + GAP + block_height - GAP
    head_line = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head_line, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"])


def _map(weights: Tensor) -> str:
    rows, columns = weights.shape
    seen = [
        f'<rect class="seen" x="{column}" y="{row}" width="1" height="1" opacity="{weight:.2f}"/>'
        for row, line in enumerate(weights.tolist())
        for column, weight in enumerate(line)
        if weight >= 0.005
    ]
    lines = "".join(f"M0 {row}h{columns}" for row in range(rows + 1))
    lines += "".join(f"M{column} 0v{rows}" for column in range(columns + 1))
    query = f'<rect class="query" x="{columns // 2}" y="{rows // 2}" width="1" height="1"/>'
    return f'{"".join(seen)}<path class="grid" d="{lines}"/>{query}'
