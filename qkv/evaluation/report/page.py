"""The report as one self-contained HTML file: tables, plots, outputs with their references."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from qkv.core.figures import INSTALL, can_draw
from qkv.evaluation.compare import Comparison
from qkv.evaluation.evaluate import Evaluation
from qkv.evaluation.metrics.error_rates import comparable, edit_distance
from qkv.evaluation.report.charts import BarChart, Plot, bar_charts, comparison_plots, evaluation_plots
from qkv.evaluation.report.tables import Table, comparison_tables, evaluation_tables
from qkv.evaluation.resampling import RESAMPLES, SEED

MOST_PAIRS = 250_000
"""The largest product of the texts' lengths in words: beyond it, marking takes seconds and helps nobody."""


@dataclass(frozen=True)
class Piece:
    """A span of a text; `shared` if the other text has it too."""

    text: str
    shared: bool


@dataclass(frozen=True)
class Marked:
    """Two texts, cut where they differ; the pieces of each put together are the text again, but for its spaces."""

    output: list[Piece]
    reference: list[Piece]


def mark(output: str, reference: str) -> Marked:
    """Compare words; where both texts are at most one word, letters."""
    by_letter = not any(len(text.split()) > 1 for text in (output, reference))
    first, second = (list(text) if by_letter else text.split() for text in (output, reference))
    if len(first) * len(second) > MOST_PAIRS:
        return Marked([Piece(output, True)], [Piece(reference, True)])
    shared_first, shared_second = [False] * len(first), [False] * len(second)
    for i, j, size in SequenceMatcher(a=first, b=second, autojunk=False).get_matching_blocks():
        shared_first[i : i + size] = shared_second[j : j + size] = [True] * size
    joint = "" if by_letter else " "
    return Marked(_pieces(first, shared_first, joint), _pieces(second, shared_second, joint))


def _pieces(units: Sequence[str], shared: Sequence[bool], joint: str) -> list[Piece]:
    pieces: list[Piece] = []
    for both, run in groupby(zip(units, shared, strict=True), key=lambda pair: pair[1]):
        if pieces and joint:
            pieces.append(Piece(joint, True))
        pieces.append(Piece(joint.join(unit for unit, _ in run), both))
    return pieces


EXAMPLES = 50


@dataclass(frozen=True)
class MarkedOutput:
    """What a system said."""

    name: str
    pieces: list[Piece]


@dataclass(frozen=True)
class Example:
    """One item of the test set with its outputs and references."""

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
    instead: str = ""
    """The text to show if there are none."""


@dataclass(frozen=True)
class TestSetReport:
    """Everything about one test set."""

    title: str
    remarks: list[str]
    tables: list[Table]
    charts: list[BarChart]
    signatures: dict[str, str]
    sections: list[Section]
    ranked_by: str


def evaluation_report(found: Evaluation, title: str, examples: int = EXAMPLES) -> str:
    """The worst and the best outputs, after the tables and plots."""
    return evaluation_reports({"": found}, title, examples)


def evaluation_reports(found: Mapping[str, Evaluation], title: str, examples: int = EXAMPLES) -> str:
    """The same for several test sets, by name, on one page; plots of the same metric have the same scale."""
    plots = {name: evaluation_plots(one) for name, one in found.items()}
    charts = _charts(list(plots.values()))
    parts = [
        TestSetReport(
            title=f"{name}: {one.test.name}" if name else "",
            remarks=one.remarks,
            tables=evaluation_tables(one),
            charts=own,
            signatures=one.signatures | one.settings,
            sections=_evaluation_sections(one, examples),
            ranked_by=one.ranked_by.title,
        )
        for (name, one), own in zip(found.items(), charts, strict=True)
    ]
    return _render(title, parts)


def _evaluation_sections(found: Evaluation, examples: int) -> list[Section]:
    systems, each = {"output": found.outputs}, {found.ranked_by.title: found.each}
    best = found.worst_first[::-1]
    return [
        Section(name, [_example(found, systems, each, place) for place in places[:examples]], instead)
        for name, places, instead in (
            ("Worst outputs", found.faulty, "Every output is perfect."),
            ("Best outputs", best, ""),
        )
    ]


def comparison_report(found: Comparison, title: str, examples: int = EXAMPLES) -> str:
    """The outputs that differ most, side by side, after the tables and plots."""
    places = found.largest_difference_first[:examples]
    shown = [_example(found, found.systems, found.each, place) for place in places]
    part = TestSetReport(
        title="",
        remarks=found.remarks,
        tables=comparison_tables(found),
        charts=_charts([comparison_plots(found)])[0],
        signatures=found.signatures | found.settings,
        sections=[Section("Largest differences", shown, "The outputs of all systems are equally good.")],
        ranked_by=found.ranked_by.title,
    )
    return _render(title, [part])


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
        # Different systems miss different words: with several, the reference is not marked.
        reference=[Piece(shown, True)] if len(systems) > 1 else next(iter(marks.values())).reference,
        other_references=[answer for answer in dict.fromkeys(answers) if answer != shown],
        scores=[f"{name} {scores[place]:.1f}" for name, scores in each.items()],
    )


def _closest(output: str, answers: Sequence[str]) -> str:
    words = comparable(output).split()
    return min(answers, key=lambda answer: edit_distance(words, comparable(answer).split()))


def _charts(pages: Sequence[Sequence[Plot]]) -> list[list[BarChart]]:
    """None without matplotlib: the page then says how to install it."""
    return bar_charts(pages) if can_draw() else [[] for _ in pages]


def _render(title: str, parts: list[TestSetReport]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Outputs, sources and file names are untrusted text: everything is escaped.
    environment = Environment(loader=PackageLoader("qkv.evaluation.report"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("report.html").render(
        title=title, parts=parts, resamples=f"{RESAMPLES:,}", seed=SEED, no_charts=INSTALL
    )
