"""Which states of the encoder each layer of the decoder attends to: a picture of every wiring."""

from xml.sax.saxutils import escape

import torch
from torch import Tensor, nn

from qkv.models.transformer.model import Transformer
from qkv.models.transformer.wirings import Wiring, wirings

LAYERS, WIDTH = 3, 8
"""Depth of both stacks, and channels of a state, in the pictures of the kinds."""
EQUATIONS = {
    "last": "mₖ = S₃",
    "layerwise": "mₖ = Sₖ",
    "mix": "mₖ = Σₗ softmax(wₖ)ₗ LN(Sₗ)",
    "dense": "mₖ = Wₖ [S₀; S₁; S₂; S₃]",
    "concatenated": "m = all Sₗ + eₗ as keys",
}
BOX, ROW, ACROSS, GAP, MARGIN = 34, 44, 96, 34, 16
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
STYLE = """
  svg { background: #fff; font: 13px system-ui, sans-serif; color: #222 }
  rect { fill: #f2f4f7; stroke: #98a2b3 }
  text { fill: currentColor; text-anchor: middle }
  .name { font-weight: 600 }
  .equation { font-size: 11px; opacity: .8 }
  line { stroke: #2166ac }
  line.up { stroke: #98a2b3; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181d; color: #e6e6e6 }
    rect { fill: #262a33; stroke: #667085 }
    line { stroke: #6aaee0 }
  }
"""


def connections(wiring: Wiring, encoder_layers: int, d_model: int) -> Tensor:
    """[M, N + 1]: how strongly the memory of each decoder layer depends on S_0 ... S_N; the strongest of a row is 1.

    The module itself is asked: the norm of the gradient of what a layer attends to.
    """
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(1, 1, d_model, generator=generator) for _ in range(encoder_layers + 1))
    states = [state.to(next(wiring.parameters(), state).dtype).requires_grad_() for state in made]
    memories, rows = wiring.memories(wiring.expose(states)), []
    for memory in memories:
        direction = torch.randn(memory.shape, generator=generator).to(memory)
        found = torch.autograd.grad((memory * direction).sum(), states, retain_graph=True, allow_unused=True)
        norms = torch.stack([torch.zeros(()) if each is None else each.norm().float() for each in found])
        rows.append(norms / norms.max())
    return torch.stack(rows)


def every_wiring() -> dict[str, Tensor]:
    """One panel for each kind, 1 where there is a connection: weights are drawn, since some of them start at zero."""
    panels = {}
    for kind in EQUATIONS:
        torch.manual_seed(0)
        wiring = wirings[kind](kind=kind).build(LAYERS, LAYERS, WIDTH, nn.Identity)
        for parameter in wiring.parameters():
            nn.init.normal_(parameter)
        panels[kind] = (connections(wiring, LAYERS, WIDTH) > 0).float()
    return panels


def wiring_of(model: Transformer) -> Tensor:
    """The connections of a model as it is."""
    return connections(model.encoder.wiring, model.encoder.num_layers, model.src_embedder.tokens.weight.shape[1])


def draw_wirings(panels: dict[str, Tensor], title: str) -> str:
    """A standalone SVG: encoder on the left, decoder on the right; a thicker line is a stronger connection."""
    panel_width = 2 * BOX + ACROSS
    tallest = max(max(strengths.shape[0] + 1, strengths.shape[1]) for strengths in panels.values())
    width, height = len(panels) * (panel_width + GAP) + 2 * MARGIN - GAP, tallest * ROW + 2 * ROW
    body = []
    for number, (name, strengths) in enumerate(panels.items()):
        x = MARGIN + number * (panel_width + GAP)
        center, bottom = x + panel_width // 2, height - ROW
        body.append(f'<text class="name" x="{center}" y="{MARGIN + 4}">{escape(name)}</text>')
        body.append(f'<text class="equation" x="{center}" y="{MARGIN + 24}">{EQUATIONS.get(name, "")}</text>')
        body += _panel(strengths, x, bottom)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"])


def _panel(strengths: Tensor, x: int, bottom: int) -> list[str]:
    """States upwards from S_0, decoder layers upwards from 1; `bottom` is the middle of the lowest box."""
    right = x + BOX + ACROSS
    drawn = [
        f'<line x1="{x + BOX}" y1="{bottom - state * ROW}" x2="{right}" y2="{bottom - (layer + 1) * ROW}" '
        f'stroke-width="{0.5 + 2 * strength:.2f}" stroke-opacity="{0.3 + 0.7 * strength:.2f}"/>'
        for layer, row in enumerate(strengths.tolist())
        for state, strength in enumerate(row)
        if strength > 0.005
    ]
    layers, states = strengths.shape
    for left, first, count, letter in ((x, 0, states, "S"), (right, 1, layers, "D")):
        for number in range(first, first + count):
            middle = bottom - number * ROW
            if number > first:
                below = middle + ROW - BOX // 2
                column = left + BOX // 2
                drawn.append(f'<line class="up" x1="{column}" y1="{below}" x2="{column}" y2="{middle + BOX // 2}"/>')
            drawn.append(f'<rect x="{left}" y="{middle - BOX // 2}" width="{BOX}" height="{BOX}" rx="6"/>')
            name = letter + "".join(SUBSCRIPTS[int(digit)] for digit in str(number))
            drawn.append(f'<text x="{left + BOX // 2}" y="{middle + 5}">{name}</text>')
    return drawn
