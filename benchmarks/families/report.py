"""Tables and charts of what was measured."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from families.first_word import WORDS, first_word_key
from families.growth import growth_key
from families.models import FAMILIES
from families.results import Record, Results
from families.tasks import Task, comparison, measured, task_key
from qkv.core.figures import SERIES, standalone_chart
from qkv.core.files import write_atomic
from qkv.evaluation.compare import Comparison, SystemScore, verdict
from qkv.visual.charts import Line, draw_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Compared:
    """The families on a task; `key` is what all of their results have in common."""

    task: Task
    key: Record
    records: Mapping[str, Record]
    """The result of each family."""
    found: Comparison


def comparisons(tasks: Sequence[Task], options: argparse.Namespace, results: Results) -> list[Compared]:
    """Those whose baseline and another family are measured."""
    compared = []
    for task in tasks:
        for budget in options.budgets:
            records = measured(task, budget, options, results)
            if (found := comparison(task, records, options)) is not None:
                compared.append(Compared(task, task_key(task, budget, options), records, found))
    return compared


def report(compared: Sequence[Compared], options: argparse.Namespace, results: Results) -> Iterator[str]:
    """Markdown."""
    for each in compared:
        yield from task_table(each)
    for part, columns in (("first word", ("copied", "probed")), ("path", ("named",))):
        for column in columns:
            yield from length_table(part, column, options, results)
    for column in ("training", "decoding"):
        yield from growth_table(column, options, results)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["", *("| " + " | ".join(cells) + " |" for cells in lines), ""]


def task_table(compared: Compared) -> Iterator[str]:
    found, rows = compared.found, []
    (metric,) = found.metrics
    for family, (score,) in found.scores.items():
        record = compared.records[family]
        rows.append(
            [
                family,
                f"{record['size']:,}",
                f"{record['rate']:g}",
                f"{record['updates']:,}",
                f"{record['tokens_per_second']:,.0f}",
                f"{record['decoded_per_second']:,.0f}",
                f"{score.value:.1f} ± {score.interval.half_width:.1f}",
                "" if score.test is None else f"{max(score.test.bootstrap, score.test.randomization):.3f}",
                verdict(metric, score),
            ]
        )
    yield "{data}, {budget} {amount:g}".format(**compared.key)
    head = ["model", "parameters", "rate", "updates", "trained tokens/s", "decoded tokens/s"]
    yield from table([*head, metric.title, "p", "verdict"], rows)
    groups = [group.label for group, _ in found.by_length]
    cells = [[family, *(f"{scored[family].values[0]:.1f}" for _, scored in found.by_length)] for family in found.scores]
    yield from table([f"{metric.title} by {found.unit}", *groups], cells)


def length_table(part: str, column: str, options: argparse.Namespace, results: Results) -> Iterator[str]:
    records = list(results.all(first_word_key(part, options)))
    lengths = sorted({record["length"] for record in records})
    if lengths:
        by_place = {(record["name"], record["length"]): record[column] for record in records}
        names = dict.fromkeys(record["name"] for record in records)
        yield f"{part}: {column}, of {WORDS} words (chance {1 / WORDS:.0%})"
        yield from table(
            ["model", *map(str, lengths)],
            [[name, *(_percent(by_place.get((name, length))) for length in lengths)] for name in names],
        )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def growth_table(column: str, options: argparse.Namespace, results: Results) -> Iterator[str]:
    lines = growth_lines(column, options, results)
    lengths = sorted({int(length) for line in lines.values() for length, _ in line})
    if lengths:
        yield f"microseconds of a processor a target token, {column}"
        rows = [[name, *(f"{dict(line).get(n, float('nan')):,.0f}" for n in lengths)] for name, line in lines.items()]
        yield from table(["model", *map(str, lengths)], rows)


def growth_lines(column: str, options: argparse.Namespace, results: Results) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for family in FAMILIES:
        if records := list(results.all({**growth_key(options), "family": family})):
            found[family] = [(record["length"], 1e6 * record[column]) for record in records]
    return found


def draw_scores(scores: Mapping[str, SystemScore], title: str, x_label: str) -> str:
    """A point with its interval for each system."""

    def paint(axes: "Axes") -> None:
        for name, score in scores.items():
            axes.plot([score.interval.low, score.interval.high], [name, name], color=SERIES[0], marker="|")
            axes.plot(score.value, name, "o", color=SERIES[0])
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.set(xlabel=x_label)

    return standalone_chart(paint, 560, 60 + 40 * len(scores), title)


def draw(compared: Sequence[Compared], options: argparse.Namespace, results: Results) -> None:
    options.pictures.mkdir(parents=True, exist_ok=True)
    for each in compared:
        (metric,) = each.found.metrics
        scores = {family: score for family, (score,) in each.found.scores.items()}
        title = f"{each.task.name}, {each.key['budget']} {each.key['amount']:g}: {metric.title}"
        chart = draw_scores(scores, title, f"{metric.title}, with its 95 % interval")
        write_atomic(options.pictures / f"families_{each.task.name}_{each.key['budget']}.svg", chart)
    for column in ("training", "decoding"):
        if lines := growth_lines(column, options, results):
            title = f"Time of a target token in {column}, against the length"
            chart = draw_lines(lines, title, "tokens of source and of target", "processor time a token, µs")
            write_atomic(options.pictures / f"families_{column}.svg", chart)
    for part, column, name, title in (
        ("first word", "copied", "first_word", "The first of n words, said by the model"),
        ("path", "named", "path", "The first word, at the last place"),
    ):
        records = list(results.all(first_word_key(part, options)))
        lines = {
            model: [(r["length"], max(100 * r[column], 1.0)) for r in records if r["name"] == model]
            for model in dict.fromkeys(record["name"] for record in records)
        }
        if lines:
            chart = draw_lines(lines, title, "n", f"right, % (chance {100 / WORDS:.0f})")
            write_atomic(options.pictures / f"families_{name}.svg", chart)
