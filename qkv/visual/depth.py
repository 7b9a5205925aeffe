"""The number of steps of each token in a model with adaptive depth: as text and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.channels import haltings
from qkv.models.transformer.model import require_transformer
from qkv.search.base import SearchTask
from qkv.search.greedy import GreedyConfig, GreedySearch
from qkv.search.models import ModelSteps
from qkv.text.special import SPECIAL
from qkv.visual.source import source_ids
from qkv.visual.svg import column_width, document, fitted, xml_text

BAR, HEIGHT, GAP, BETWEEN = 22, 16, 8, 32
SIZE, NARROWEST, WIDEST = 13, 30, 180
STYLE = """
  rect { fill: #d0d5dd }
  rect.taken { fill: #2166ac }
  .token { font-size: 13px }
  .side { font-size: 13px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    rect { fill: #333844 }
    rect.taken { fill: #6aaee0 }
  }
"""


@dataclass(frozen=True)
class TokenDepth:
    """A token, and the steps that were taken for it."""

    token: str
    steps: int


@dataclass(frozen=True)
class Depths:
    """The steps of source and target tokens; `most_...` are the most that a token may take."""

    source: list[TokenDepth]
    target: list[TokenDepth]
    most_source: int
    most_target: int
    output: str


@torch.no_grad()
def depths_of(saved: SavedModel, text: str) -> Depths:
    """Of a text and its greedy translation; a target token's depth is that of the position that predicted it."""
    model = require_transformer(saved.model, "qkv show depth")
    if not (model.encoder.depth.ends_early and model.decoder.depth.ends_early):
        raise UsageError("every token takes all layers in this model; train one with model.stack=adaptive")
    ids, search = source_ids(saved, text), GreedyConfig().within(saved.config.length_limit)
    src, src_keep = padded([ids], SPECIAL.pad)
    task = SearchTask(src, src_keep, SPECIAL, [search.limits(len(ids), model.limits.tgt)])
    with haltings.listen() as heard:
        best = GreedySearch().run(ModelSteps(model), task)[0][0]
    encoder, *decoder = heard
    said = [*best.tokens, SPECIAL.eos]
    names = saved.tokenizers.tgt.tokens(best.tokens)
    source_names = [*saved.tokenizers.src.tokens(ids[:-1]), "END"]
    return Depths(
        [TokenDepth(name, steps) for name, steps in zip(source_names, encoder.steps[0].tolist(), strict=True)],
        [
            TokenDepth(name, int(halting.steps))
            for name, halting, _ in zip([*names, "END"], decoder, said, strict=False)
        ],
        model.encoder.num_layers,
        model.decoder.num_layers,
        saved.tokenizers.tgt.decode(best.tokens),
    )


def depth_lines(depths: Depths) -> list[str]:
    """A line for each token: its steps out of the maximum."""
    widest = max(len(each.token) for each in (*depths.source, *depths.target))
    lines = []
    for name, side, most in (("read", depths.source, depths.most_source), ("said", depths.target, depths.most_target)):
        lines.append(f"{name}, {sum(each.steps for each in side) / len(side):.1f} of {most} steps a token")
        lines += [
            f"  {each.token:{widest}} {'#' * each.steps}{'.' * (most - each.steps)} {each.steps}" for each in side
        ]
    return lines


def draw_depths(depths: Depths, title: str) -> str:
    """A standalone SVG: what was read on the left, what was said on the right, a box for each step."""
    tokens = [each.token for each in (*depths.source, *depths.target)]
    label = column_width(tokens, SIZE, NARROWEST, WIDEST) + 10
    wide = [label + BAR * most for most in (depths.most_source, depths.most_target)]
    rows = 1 + max(len(depths.source), len(depths.target))
    body = [
        *_column(depths.source, "read", depths.most_source, 0, label),
        *_column(depths.target, "said", depths.most_target, wide[0] + BETWEEN, label),
    ]
    return document(title, (), (sum(wide) + BETWEEN, rows * (HEIGHT + GAP)), STYLE, body)


def _column(side: Sequence[TokenDepth], name: str, most: int, x: int, label: int) -> list[str]:
    drawn = [f'<text class="side" x="{x}" y="12">{name}</text>']
    for row, each in enumerate(side, start=1):
        y = row * (HEIGHT + GAP)
        token = fitted(each.token, label - 10, SIZE)
        drawn.append(f'<text class="token" x="{x}" y="{y + 13}">{xml_text(token)}</text>')
        for step in range(most):
            taken = ' class="taken"' if step < each.steps else ""
            drawn.append(
                f'<rect{taken} x="{x + label + step * BAR}" y="{y}" width="{BAR - 3}" height="{HEIGHT}" rx="3"/>'
            )
    return drawn
