"""The analysis of heads as an HTML page that needs nothing else, and as plain data for JSON."""

from functools import partial
from typing import Any

from qkv.core.figures import INSTALL, can_draw, chart
from qkv.evaluation.report.charts import BarChart
from qkv.evaluation.resampling import PairedTest
from qkv.visual.heads.analysis import HeadAnalysis, SideAnalysis
from qkv.visual.heads.distances import PERMUTATIONS
from qkv.visual.heads.figures import SIZE, head_points, paint_curve, paint_depth, paint_map
from qkv.visual.heads.profile import EVEN, MOST, TARGETS, HeadProfile
from qkv.visual.heads.removal import RemovalStudy
from qkv.visual.heads.tables import profile_tables, removal_tables


def heads_report(found: HeadAnalysis, title: str, removal: RemovalStudy | None = None) -> str:
    """A page with the answers, the maps, a line for each head, and what happens without heads."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader("qkv.visual.heads"), PackageLoader("qkv.evaluation.report")])
    # File names are untrusted text: everything is escaped.
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("heads.html").render(
        title=title,
        found=found,
        removal=removal,
        tables=profile_tables(found),
        removal_tables=[] if removal is None else removal_tables(removal),
        charts=_charts(found, removal) if can_draw() else [],
        no_charts=INSTALL,
        permutations=f"{PERMUTATIONS:,}",
        most=f"{100 * MOST:.0f}",
        even=f"{100 * EVEN:.0f}",
    )


def _charts(found: HeadAnalysis, removal: RemovalStudy | None) -> list[BarChart]:
    drawn = []
    if removal is not None and removal.curve is not None:
        title = f"{removal.metric.title} with heads removed"
        drawn.append(BarChart(title, [], chart(partial(paint_curve, curve=removal.curve), *SIZE, title)))
    for side in found.sides:
        title = f"Map of the heads of the {side.name}"
        drawn.append(BarChart(title, [], chart(partial(paint_map, heads=head_points(side)), *SIZE, title)))
        if side.layers is not None:
            title = f"Divergence within the layers of the {side.name}"
            drawn.append(BarChart(title, [], chart(partial(paint_depth, found=side), *SIZE, title)))
    return drawn


def analysis_dict(found: HeadAnalysis, removal: RemovalStudy | None = None) -> dict[str, Any]:
    """Everything as plain data."""
    sides = {side.side: _side_dict(side) for side in found.sides}
    data = {"data": found.data, "pairs": found.pairs, "sides": sides}
    return data if removal is None else {**data, "removal": _removal_dict(removal)}


def _removal_dict(removal: RemovalStudy) -> dict[str, Any]:
    curve = removal.curve
    return {
        "metric": removal.metric.name,
        "outputs": removal.outputs,
        "whole": removal.whole,
        "answers": removal.answers,
        "without": [
            {**one.head._asdict(), "score": one.score, "difference": one.test.difference, **_p_values(one.test)}
            for one in removal.each
        ],
        "curve": None
        if curve is None
        else {
            "removed": curve.removed,
            "heads": curve.total,
            "orders": curve.orders,
            "random": curve.random,
            "tests": [{"difference": test.difference, **_p_values(test)} for test in curve.tests],
            "p_random": curve.p_random,
        },
    }


def _p_values(test: PairedTest) -> dict[str, float]:
    return {"p_bootstrap": test.bootstrap, "p_shuffling": test.randomization}


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
        "importance": None if side.importance is None else side.importance[place],
        "entropy": one.entropy,
        "evenness": one.evenness,
        "confidence": one.confidence,
        "distance": one.distance,
        "shares": dict(one.shares),
        "place": side.places[place].tolist(),
    }
