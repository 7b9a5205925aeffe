"""Tables and charts of what was measured."""

import argparse
from collections.abc import Iterator, Sequence

from families.first_word import WORDS
from families.models import FAMILIES
from families.results import Results
from families.tasks import Task, comparison, task_key
from qkv.core.files import write_atomic
from qkv.evaluation.compare import verdict
from qkv.visual.charts import Line, draw_lines


def report(tasks: Sequence[Task], options: argparse.Namespace, results: Results) -> Iterator[str]:
    """Markdown."""
    for task in tasks:
        for budget in options.budgets:
            yield from task_table(task, budget, options, results)
    for part, columns in (("first word", ("copied", "probed")), ("path", ("named",))):
        for column in columns:
            yield from length_table(part, column, results)
    for column in ("training", "decoding"):
        yield from growth_table(column, results)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["", *("| " + " | ".join(cells) + " |" for cells in lines), ""]


def task_table(task: Task, budget: str, options: argparse.Namespace, results: Results) -> Iterator[str]:
    compared = comparison(task, budget, options, results)
    if compared is None:
        return
    (metric,) = compared.metrics
    rows, key = [], task_key(task, budget, options)
    speeds = {
        record["family"]: record["tokens_per_second"] for record in results.all("speed") if record["task"] == task.name
    }
    for family, (score,) in compared.scores.items():
        record = results.find(key | {"family": family})
        assert record is not None
        rows.append(
            [
                family,
                f"{record['parameters']:,}",
                f"{record['updates']:,}",
                f"{speeds[family]:,.0f}",
                f"{record['decoded_per_second']:,.0f}",
                f"{score.value:.1f} ± {score.interval.half_width:.1f}",
                "" if score.test is None else f"{max(score.test.bootstrap, score.test.randomization):.3f}",
                verdict(metric, score),
            ]
        )
    yield f"{task.name}, {budget} {key['amount']:g}, {options.pairs:,} pairs at most"
    head = ["model", "parameters", "updates", "trained tokens/s", "decoded tokens/s", metric.title, "p", "verdict"]
    yield from table(head, rows)
    groups = [group.label for group, _ in compared.by_length]
    cells = [
        [family, *(f"{scored[family].values[0]:.1f}" for _, scored in compared.by_length)] for family in compared.scores
    ]
    yield from table([f"{metric.title} by {compared.unit}", *groups], cells)


def length_table(part: str, column: str, results: Results) -> Iterator[str]:
    records = list(results.all(part))
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


def growth_table(column: str, results: Results) -> Iterator[str]:
    lines = growth_lines(column, results)
    lengths = sorted({int(length) for line in lines.values() for length, _ in line})
    if lengths:
        yield f"microseconds of a processor a target token, {column}"
        rows = [[name, *(f"{dict(line).get(n, float('nan')):,.0f}" for n in lengths)] for name, line in lines.items()]
        yield from table(["model", *map(str, lengths)], rows)


def growth_lines(column: str, results: Results) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for family in FAMILIES:
        records = [record for record in results.all("growth") if record["family"] == family]
        if records:
            found[family] = [(record["length"], 1e6 * record[column]) for record in records]
    return found


def draw(options: argparse.Namespace, results: Results) -> None:
    options.pictures.mkdir(parents=True, exist_ok=True)
    for column in ("training", "decoding"):
        if lines := growth_lines(column, results):
            title = f"Time of a target token in {column}, against the length"
            chart = draw_lines(lines, title, "tokens of source and of target", "processor time a token, µs")
            write_atomic(options.pictures / f"families_{column}.svg", chart)
    for part, column, name, title in (
        ("first word", "copied", "first_word", "The first of n words, said by the model"),
        ("path", "named", "path", "The first word, at the last place"),
    ):
        records = list(results.all(part))
        lines = {
            model: [(r["length"], max(100 * r[column], 1.0)) for r in records if r["name"] == model]
            for model in dict.fromkeys(record["name"] for record in records)
        }
        if lines:
            chart = draw_lines(lines, title, "n", f"right, % (chance {100 / WORDS:.0f})")
            write_atomic(options.pictures / f"families_{name}.svg", chart)
