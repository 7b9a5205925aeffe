"""The analysis of heads as tables."""

from qkv.evaluation.report.tables import Table
from qkv.visual.heads.analysis import HeadAnalysis, SideAnalysis
from qkv.visual.heads.profile import TARGETS

SHORT = {"punctuation": "punct."}


def profile_tables(found: HeadAnalysis) -> list[Table]:
    """One for each side: a line for each head, and one for what even attention would give."""
    return [_profile_table(side) for side in found.sides]


def _profile_table(found: SideAnalysis) -> Table:
    kinds = [SHORT.get(kind, kind) for kind in TARGETS]
    header = ["head", "entropy", "confidence", "distance", *kinds, "attends mostly to"]
    rows = [
        [
            f"{one.head.layer}.{one.head.head}",
            f"{one.entropy:.2f}",
            f"{one.confidence:.2f}",
            f"{one.distance:.1f}",
            *(percent(one.shares[kind]) for kind in TARGETS),
            one.role(found.even),
        ]
        for one in found.profiles
    ]
    rows.append(["even", "", "", "", *(percent(found.even[kind]) for kind in TARGETS), ""])
    return Table(f"Heads of the {found.name} (layer.head)", header, rows, {0, len(header) - 1})


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
