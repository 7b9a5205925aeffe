"""A report as one HTML file that needs nothing else: tables, plots, outputs beside references."""

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.evaluation.charts import BarChart, bar_chart
from qkv.evaluation.compare import Comparison
from qkv.evaluation.differences import Piece, mark
from qkv.evaluation.error_rates import comparable, edit_distance
from qkv.evaluation.evaluate import Evaluation
from qkv.evaluation.resampling import RESAMPLES, SEED
from qkv.evaluation.tables import Table, comparison_tables, evaluation_tables

EXAMPLES = 50


@dataclass(frozen=True)
class MarkedOutput:
    """What a system said."""

    name: str
    pieces: list[Piece]


@dataclass(frozen=True)
class Example:
    """One question with everything that is known about it."""

    number: int
    source: str | None
    outputs: list[MarkedOutput]
    reference: list[Piece]
    other_references: list[str]
    scores: list[str]


@dataclass(frozen=True)
class Section:
    """Some examples."""

    title: str
    examples: list[Example]


def evaluation_report(found: Evaluation, title: str, examples: int = EXAMPLES) -> str:
    """The worst and the best outputs, after the tables and plots."""
    order = found.worst_first
    systems, each = {"output": found.outputs}, {found.ranked_by.title: found.each}
    named = [("Worst outputs", order[:examples]), ("Best outputs", order[::-1][:examples])]
    charts = [
        bar_chart(
            f"{score.metric.title} by {found.unit}",
            [(part.group.label, f"n={len(part.group.members)}") for part in found.by_length],
            [score.metric.title],
            [[part.values[place]] for part in found.by_length],
        )
        for place, score in enumerate(found.scores)
    ]
    if found.by_frequency:
        groups = [(group.label, f"n={group.in_references}") for group in found.by_frequency]
        values = [[group.f1] for group in found.by_frequency]
        charts.append(bar_chart("F1 of words by times seen in training", groups, ["F1"], values))
    sections = [Section(name, [_example(found, systems, each, place) for place in places]) for name, places in named]
    return _render(found, title, evaluation_tables(found), charts, sections, found.remarks)


def comparison_report(found: Comparison, title: str, examples: int = EXAMPLES) -> str:
    """The outputs that differ most, side by side, after the tables and plots."""
    charts = [
        bar_chart(
            f"{metric.title} by {found.unit}",
            [(group.label, f"n={len(group.members)}") for group, _ in found.by_length],
            list(found.systems),
            [[values[place] for values in scores.values()] for _, scores in found.by_length],
        )
        for place, metric in enumerate(found.metrics)
    ]
    places = found.largest_difference_first[:examples]
    section = Section("Largest differences", [_example(found, found.systems, found.each, place) for place in places])
    return _render(found, title, comparison_tables(found), charts, [section], found.remarks)


def _example(
    found: Evaluation | Comparison, systems: dict[str, list[str]], each: dict[str, list[float]], place: int
) -> Example:
    answers = found.test.references[place]
    closest = {name: _closest(outputs[place], answers) for name, outputs in systems.items()}
    marks = {name: mark(outputs[place], closest[name]) for name, outputs in systems.items()}
    shown = next(iter(closest.values()))
    return Example(
        number=place + 1,
        source=None if found.test.sources is None else found.test.sources[place],
        outputs=[MarkedOutput(name, marked.output) for name, marked in marks.items()],
        # Two systems miss different words of it: with several, the reference stays unmarked.
        reference=[Piece(shown, True)] if len(systems) > 1 else next(iter(marks.values())).reference,
        other_references=[answer for answer in dict.fromkeys(answers) if answer != shown],
        scores=[f"{name} {scores[place]:.1f}" for name, scores in each.items()],
    )


def _closest(output: str, answers: Sequence[str]) -> str:
    words = comparable(output).split()
    return min(answers, key=lambda answer: edit_distance(words, comparable(answer).split()))


def _render(
    found: Evaluation | Comparison,
    title: str,
    tables: list[Table],
    charts: list[BarChart],
    sections: list[Section],
    remarks: list[str],
) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Outputs, sources and file names are anybody's text: everything is escaped.
    environment = Environment(loader=PackageLoader("qkv.evaluation"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("report.html").render(
        title=title,
        tables=tables,
        charts=charts,
        sections=sections,
        remarks=remarks,
        signatures=found.signatures | found.settings,
        ranked_by=found.ranked_by.title,
        resamples=f"{RESAMPLES:,}",
        seed=SEED,
    )
