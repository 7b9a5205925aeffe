"""The analysis of heads as tables."""

from qkv.evaluation.report.tables import Table
from qkv.evaluation.resampling import PairedTest
from qkv.visual.heads.analysis import HeadAnalysis, SideAnalysis
from qkv.visual.heads.profile import TARGETS
from qkv.visual.heads.removal import PruningCurve, RemovalStudy

SHORT = {"punctuation": "punct."}


def profile_tables(found: HeadAnalysis) -> list[Table]:
    """One for each side: a line for each head, and one for what even attention would give."""
    return [_profile_table(side) for side in found.sides]


def _profile_table(found: SideAnalysis) -> Table:
    kinds = [SHORT.get(kind, kind) for kind in TARGETS]
    header = ["head", "importance", "entropy", "confidence", "distance", *kinds, "attends mostly to"]
    rows = [
        [
            f"{one.head.layer}.{one.head.head}",
            "–" if found.importance is None else f"{found.importance[place]:.2f}",
            f"{one.entropy:.2f}",
            f"{one.confidence:.2f}",
            f"{one.distance:.1f}",
            *(percent(one.shares[kind]) for kind in TARGETS),
            one.role(found.even),
        ]
        for place, one in enumerate(found.profiles)
    ]
    rows.append(["even", "", "", "", "", *(percent(found.even[kind]) for kind in TARGETS), ""])
    return Table(f"Heads of the {found.name} (layer.head)", header, rows, {0, len(header) - 1})


def removal_tables(found: RemovalStudy) -> list[Table]:
    """The score without each head, and with more and more heads removed; what was not measured is left out."""
    tables = []
    title = found.metric.title
    if found.each:
        rows = [
            [str(one.head), f"{one.score:.2f}", *_tested(one.test)]
            for one in sorted(found.each, key=lambda one: -abs(one.test.difference))
        ]
        rows.insert(0, ["none", f"{found.whole:.2f}", "", "", ""])
        header = ["without", title, "difference", "p bootstrap", "p shuffling"]
        tables.append(Table(f"{title} without one head, {found.outputs:,} outputs", header, rows))
    if found.curve is not None:
        tables.append(_curve_table(found.curve))
    return tables


def _curve_table(curve: PruningCurve) -> Table:
    header = ["removed", *(f"by {name}" for name in curve.orders), "random (mean)", "lowest", "highest"]
    header += ["difference", "p bootstrap", "p shuffling"]
    rows = []
    for place, removed in enumerate(curve.removed):
        drawn = [scores[place] for scores in curve.random]
        values = [*(scores[place] for scores in curve.orders.values()), sum(drawn) / len(drawn), min(drawn), max(drawn)]
        tested = _tested(curve.tests[place])
        rows.append([f"{removed} of {curve.total}", *(f"{value:.2f}" for value in values), *tested])
    return Table(f"{curve.metric.title} with heads removed, the least important first", header, rows)


def _tested(test: PairedTest) -> list[str]:
    return [f"{test.difference:+.2f}", f"{test.bootstrap:.4f}", f"{test.randomization:.4f}"]


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
