"""Who may attend to whom: the mask of each kind of attention, or of the layers of a model; no weights are shown."""

from collections.abc import Mapping

import torch
from torch import Tensor

from qkv.functional.masks import Predicate, causal
from qkv.layers.attention import (
    Attention,
    AttentionConfig,
    CausalConfig,
    FullConfig,
    LongformerAttention,
    LongformerConfig,
    LshConfig,
    TruncatedConfig,
)
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.model import Transformer
from qkv.visual.panels import draw_panels, squares
from qkv.visual.svg import SAMPLE_HEIGHT, Entry

D_MODEL, HEADS = 16, 2
"""The size of an attention that belongs to no model."""
LENGTH = 32
ITSELF, OTHERS, MASKED = "#2166ac", "#4393c3", "#8884"
EXAMPLES: dict[str, tuple[AttentionConfig, Predicate | None]] = {
    "full": (FullConfig(), None),
    "full, decoder": (FullConfig(), causal),
    "causal": (CausalConfig(), None),
    "truncated, left 4": (TruncatedConfig(left=4), None),
    "truncated, decoder": (TruncatedConfig(left=4), causal),
    "truncated, dilation 3": (TruncatedConfig(left=3, dilation=3), None),
    "longformer, 2 global": (LongformerConfig(window=8, global_positions=(0, 20)), None),
    "longformer, decoder": (LongformerConfig(window=8), causal),
    "lsh, one round": (LshConfig(rounds=1, buckets=4, chunk=8), None),
}


def pattern(attention: Attention, length: int = LENGTH, predicate: Predicate | None = None) -> Tensor:
    """[Q, K], True where output q depends on input k: found from the module's gradient.

    If single tokens are global, one is put in the middle.
    """
    pos = torch.arange(length)
    tokens = torch.full((1, length), -1)
    if isinstance(attention, LongformerAttention) and len(attention.global_ids):
        tokens[0, length // 2] = attention.global_ids[0]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, length, attention.query.in_features, generator=generator, requires_grad=True)
    # In float64, small weights do not underflow.
    attention = attention.double().eval()
    output = attention(x.double(), AttentionContext(pos, pos, predicate, tokens=tokens))[0].sum(-1)
    rows = [torch.autograd.grad(output[q], x, retain_graph=True)[0][0].abs().amax(-1) > 0 for q in range(length)]
    return torch.stack(rows)


def every_pattern(length: int = LENGTH) -> dict[str, Tensor]:
    """One panel for each kind."""
    panels = {}
    for name, (config, predicate) in EXAMPLES.items():
        torch.manual_seed(0)
        panels[name] = pattern(config.build(D_MODEL, HEADS, 0.0, None, 0), length, predicate)
    return panels


def patterns_of(model: Transformer, length: int = LENGTH) -> dict[str, Tensor]:
    """One panel for the self-attention of each layer of a model, which is changed to float64."""
    encoder = [layer.attention for layer in model.encoder.in_order()]
    decoder = [layer.attention for layer in model.decoder.in_order()]
    sides: tuple[tuple[str, list[Attention], Predicate | None], ...]
    sides = (("encoder", encoder, None), ("decoder", decoder, causal))
    return {
        f"{side}, layer {number}": pattern(attention, length, predicate)
        for side, attentions, predicate in sides
        for number, attention in enumerate(attentions, start=1)
    }


def draw_patterns(panels: Mapping[str, Tensor], title: str) -> str:
    """A standalone SVG: queries run down, keys to the right; a coloured cell is a key that the query sees."""
    return draw_panels(panels, title, LEGEND, _cells)


def _sample(colour: str) -> str:
    return f'<rect width="{SAMPLE_HEIGHT}" height="{SAMPLE_HEIGHT}" fill="{colour}"/>'


LEGEND = (
    Entry(_sample(ITSELF), "the query itself"),
    Entry(_sample(OTHERS), "another key that the query may attend to"),
    Entry(_sample(MASKED), "masked"),
)


def _cells(panel: Tensor) -> list[str]:
    """Itself dark, other keys lighter, the rest a pale ground."""
    size, itself = len(panel), torch.eye(len(panel), dtype=torch.bool)
    return [
        f'<rect width="{size}" height="{size}" fill="{MASKED}"/>',
        f'<path fill="{OTHERS}" d="{squares(panel & ~itself)}"/>',
        f'<path fill="{ITSELF}" d="{squares(panel & itself)}"/>',
    ]
