"""The effect of a position scheme on the scores, as a heat map of queries against keys."""

from collections.abc import Mapping

import torch
from torch import Tensor

from qkv.functional.attention import scaled_dot_scores, split_heads
from qkv.layers.positions import Positions, positions
from qkv.models.transformer.model import Transformer
from qkv.visual.panels import draw_panels, squares
from qkv.visual.svg import SAMPLE_HEIGHT, Entry

D_MODEL, HEADS = 64, 4
"""The model in which schemes that belong to none are drawn."""
LENGTH = 32
LEVELS = 16
LOW, MIDDLE, HIGH = (33, 102, 172), (247, 247, 247), (178, 24, 43)


@torch.no_grad()
def position_scores(embedded: Positions, attended: Positions, d_model: int, num_heads: int, length: int) -> Tensor:
    """[H, Q, K]: the scores of equal tokens, so that only their positions make a difference.

    `embedded` is the scheme where tokens enter, `attended` where a layer attends; projections are left out. A scheme
    that adds nothing to the embeddings is shown with ones in every channel.
    """
    pos = torch.arange(length)
    x = embedded.embed(torch.zeros(1, length, d_model), pos)
    turned = attended.rotate(split_heads(x if bool(x.any()) else torch.ones_like(x), num_heads), pos)
    scores, bias = scaled_dot_scores(turned, turned), attended.bias(turned, pos, pos)
    return (scores if bias is None else scores + bias)[0]


def every_scheme(length: int = LENGTH) -> dict[str, Tensor]:
    """One panel [Q, K] for each kind as it begins, in an encoder.

    What is added to the embeddings is shown as the mean over the heads, what acts in attention as the first head.
    """
    torch.manual_seed(0)
    panels = {}
    for config in positions:
        scheme = config().build(D_MODEL, HEADS, causal=False)
        scores = position_scores(scheme, scheme.for_layer(), D_MODEL, HEADS, length)
        panels[str(config.model_fields["kind"].default)] = scores.mean(0) if config.sees == "places" else scores[0]
    return panels


def schemes_of(model: Transformer, length: int = LENGTH) -> dict[str, Tensor]:
    """One panel for each head of the first layer of a model's encoder and decoder; a decoder sees no later key."""
    panels: dict[str, Tensor] = {}
    for side, embedder, attention in (
        ("encoder", model.src_embedder, next(model.encoder.in_order()).attention),
        ("decoder", model.tgt_embedder, next(model.decoder.in_order()).attention),
    ):
        width = embedder.tokens.weight.shape[1]
        scores = position_scores(embedder.positions, attention.positions, width, attention.num_heads, length)
        if side == "decoder":
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), torch.nan)
        panels |= {f"{side}, head {head}": panel for head, panel in enumerate(scores, start=1)}
    return panels


def draw_positions(panels: Mapping[str, Tensor], title: str) -> str:
    """A standalone SVG: queries run down, keys to the right; red raises a score, blue lowers it, NaN is left empty."""
    return draw_panels(panels, title, LEGEND, _cells)


def _cells(panel: Tensor) -> list[str]:
    """One path for each colour; the middle colour is the panel's mean, the ends its greatest distance from it."""
    centred = panel - panel.nanmean()
    most = float(centred.nan_to_num(0).abs().max())
    level = (centred / (most or 1) * LEVELS).round()
    paths = []
    for value in range(-LEVELS, LEVELS + 1):
        if path := squares(level == value):
            paths.append(f'<path fill="{_colour(value / LEVELS)}" d="{path}"/>')
    return paths


def _colour(value: float) -> str:
    end = HIGH if value > 0 else LOW
    mixed = (round(middle + abs(value) * (far - middle)) for middle, far in zip(MIDDLE, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _sample(value: float) -> str:
    return f'<rect width="{SAMPLE_HEIGHT}" height="{SAMPLE_HEIGHT}" fill="{_colour(value)}"/>'


LEGEND = (
    Entry(_sample(1.0), "more than the panel's mean"),
    Entry(_sample(-1.0), "less"),
)
