"""Figures of the analysis of heads: the map, and the distances within layers against depth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from qkv.core.figures import FAINT, SERIES, TIP
from qkv.visual.heads.analysis import SideAnalysis
from qkv.visual.heads.removal import PruningCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 380, 300
"""Width and height of a figure in pixels."""


class HeadPoint(NamedTuple):
    """A head on the map."""

    layer: int
    head: int
    x: float
    y: float
    role: str


def head_points(found: SideAnalysis) -> list[HeadPoint]:
    """The heads of a side at their places."""
    return [
        HeadPoint(one.head.layer, one.head.head, float(x), float(y), one.role(found.even))
        for one, (x, y) in zip(found.profiles, found.places, strict=True)
    ]


def paint_map(axes: "Axes", heads: Sequence[HeadPoint]) -> None:
    """Each head a point, coloured by layer; heads that attend alike are near each other."""
    layers = list(dict.fromkeys(head.layer for head in heads))
    colours = {layer: SERIES[number % len(SERIES)] for number, layer in enumerate(layers)}
    for layer, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=f"layer {layer}")
    for layer, head, x, y, role in heads:
        (point,) = axes.plot(x, y, "o", color=colours[layer], alpha=0.85, clip_on=False)
        point.set_gid(f"{TIP}layer {layer}, head {head}: {role}")
        name = f"{layer}.{head}"
        axes.annotate(name, (x, y), (4, 3), textcoords="offset points", color=colours[layer], fontsize=7)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.1)
    axes.grid()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor="linecolor")


def paint_depth(axes: "Axes", found: SideAnalysis) -> None:
    """The mean divergence between the heads of each layer; dashed: between heads of different layers."""
    assert found.layers is not None
    for layer, value in zip(found.layers.layers, found.layers.within, strict=True):
        (bar,) = axes.bar(layer, value, 0.7, color=SERIES[0], alpha=0.85)
        bar.set_gid(f"{TIP}layer {layer}: {value:.3f}")
        axes.annotate(f"{value:.2f}", (layer, value), (0, 3), textcoords="offset points", ha="center")
    axes.axhline(found.layers.other_layers, color=FAINT, linewidth=1, linestyle="dashed")
    axes.set(xlabel="layer", ylabel="divergence within the layer, nats")
    axes.set_xticks(found.layers.layers)
    axes.margins(y=0.12)
    axes.grid(axis="y")


def paint_curve(axes: "Axes", curve: PruningCurve) -> None:
    """Scores against the number of removed heads; random orders are a band from the lowest to the highest."""
    lows, highs = ([f(column) for column in zip(*curve.random, strict=True)] for f in (min, max))
    means = [sum(column) / len(column) for column in zip(*curve.random, strict=True)]
    axes.fill_between(curve.removed, lows, highs, color=FAINT, alpha=0.2, linewidth=0)
    axes.plot(curve.removed, means, color=FAINT, label=f"random ({len(curve.random)} orders)")
    for number, (name, scores) in enumerate(curve.orders.items()):
        axes.plot(curve.removed, scores, marker="o", markersize=4, color=SERIES[number], label=f"by {name}")
    axes.set(xlabel=f"heads removed of {curve.total}", ylabel=curve.metric.title)
    axes.grid()
    axes.legend(loc="best", labelcolor="linecolor")
