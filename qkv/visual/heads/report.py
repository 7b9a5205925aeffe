"""The analysis of heads as an HTML page that needs nothing else, and as plain data for JSON."""

from functools import partial
from typing import Any

from qkv.core.figures import INSTALL, can_draw, chart
from qkv.evaluation.report.charts import BarChart
from qkv.visual.heads.analysis import HeadAnalysis, SideAnalysis
from qkv.visual.heads.distances import PERMUTATIONS
from qkv.visual.heads.figures import SIZE, paint_depth, paint_map
from qkv.visual.heads.profile import EVEN, MOST, TARGETS, HeadProfile
from qkv.visual.heads.tables import profile_tables


def heads_report(found: HeadAnalysis, title: str) -> str:
    """A page with the answers, the maps and a line for each head."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader("qkv.visual.heads"), PackageLoader("qkv.evaluation.report")])
    # File names are untrusted text: everything is escaped.
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("heads.html").render(
        title=title,
        found=found,
        tables=profile_tables(found),
        charts=_charts(found) if can_draw() else [],
        no_charts=INSTALL,
        permutations=f"{PERMUTATIONS:,}",
        most=f"{100 * MOST:.0f}",
        even=f"{100 * EVEN:.0f}",
    )


def _charts(found: HeadAnalysis) -> list[BarChart]:
    drawn = []
    for side in found.sides:
        title = f"Map of the heads of the {side.name}"
        drawn.append(BarChart(title, [], chart(partial(paint_map, found=side), *SIZE, title)))
        if side.layers is not None:
            title = f"Divergence within the layers of the {side.name}"
            drawn.append(BarChart(title, [], chart(partial(paint_depth, found=side), *SIZE, title)))
    return drawn


def analysis_dict(found: HeadAnalysis) -> dict[str, Any]:
    """Everything as plain data."""
    return {"data": found.data, "pairs": found.pairs, "sides": {side.side: _side_dict(side) for side in found.sides}}


def _side_dict(side: SideAnalysis) -> dict[str, Any]:
    layers = side.layers
    return {
        "answers": side.answers,
        "heads": [_head_dict(side, one, place) for place, one in enumerate(side.profiles)],
        "even_shares": {kind: side.even[kind] for kind in TARGETS},
        "divergence": side.divergence.tolist(),
        "layers": None if layers is None else dict(vars(layers)),
    }


def _head_dict(side: SideAnalysis, one: HeadProfile, place: int) -> dict[str, Any]:
    return {
        "layer": one.head.layer,
        "head": one.head.head,
        "role": one.role(side.even),
        "entropy": one.entropy,
        "evenness": one.evenness,
        "confidence": one.confidence,
        "distance": one.distance,
        "shares": dict(one.shares),
        "place": side.places[place].tolist(),
    }
