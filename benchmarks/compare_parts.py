"""One thing changed at a time, at an equal budget: does another scheme of positions help, or less dropout?

    python benchmarks/compare_parts.py [key=value ...] --data DIR [--budget 20m] [--threads 1] [--seeds 1 2]
        [--parts positions wiring] [--change "4,000 pieces" text.shared.vocab_size=4000] [--change ...]

DIR holds Multi30k: train.en, train.de, val.en, val.de. Each run is recipes/multi30k-en-de.yaml with one part of its
model replaced, by every other kind of its registry (--parts), or with a change of your own (--change: its name, then
settings). It is trained for --budget (`20m` minutes or `3000u` updates) by one process of --threads threads, so two of
these programs can share a machine without disturbing each other's updates. Settings of the recipe before the options,
such as `schedule.warmup=150`, hold for all runs. Then the best model of each decodes the dev set, and every run is
tested against the unchanged recipe of the same seed: paired bootstrap and approximate randomisation, as `qkv compare`
does.

All is kept in --out. A run that is finished is not run again and an interrupted one is resumed, so the program can
be stopped at any time. With --table it only prints the table of what is there.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_runs import train_or_resume

from qkv.config.base import Kinds
from qkv.core.files import write_atomic
from qkv.core.progress import default_reporter
from qkv.evaluation.compare import SystemScore, compare_outputs, verdict
from qkv.evaluation.files import EvaluationSet, read_evaluation_set, read_outputs
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.evaluation.systems import decode_outputs
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.saved.folder import load_model
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.recipes import load_recipe
from qkv.training.run.folder import RunFolder

RECIPE = "multi30k-en-de"
PARTS: dict[str, Kinds[Any]] = {"positions": positions, "wiring": wirings, "stack": stacks, "residual": residuals}
LONGEST = 256
"""Positions of a learned table, enough for every sentence of the data and its translation."""


@dataclass(frozen=True)
class Run:
    """The recipe with a change; no settings: as it is."""

    name: str
    settings: Sequence[str]
    seed: int
    folder: Path

    @property
    def outputs(self) -> Path:
        return self.folder / "dev.out"

    @property
    def about(self) -> Path:
        return self.folder / "about.json"

    @property
    def finished(self) -> bool:
        return self.about.is_file()

    def overrides(self, options: argparse.Namespace) -> list[str]:
        budget = [f"training.stop_after={options.budget}", f"training.threads={options.threads}", "training.workers=1"]
        fixed = [f"seed={self.seed}", f"data.root={options.data}"]
        return [*fixed, *budget, *options.settings, *self.settings]


def all_runs(options: argparse.Namespace) -> Iterator[Run]:
    """The unchanged recipe first, for each seed."""
    changes = {"unchanged": [], **kinds_of(options.parts), **{name: settings for name, *settings in options.change}}
    for seed in options.seeds:
        for name, settings in changes.items():
            yield Run(name, settings, seed, options.out / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{seed}")


def kinds_of(parts: Sequence[str]) -> dict[str, list[str]]:
    """Every kind of each part; those that the recipe has already are left out."""
    model = load_recipe(RECIPE).model
    kinds = [(part, kind) for part in parts for kind in PARTS[part].names() if kind != getattr(model, part).kind]
    sized = {"learned": f"{{kind: learned, max_length: {LONGEST}}}"}
    return {f"{part} {kind}": [f"model.{part}={sized.get(kind, kind)}"] for part, kind in kinds}


def do(run: Run, options: argparse.Namespace, dev: EvaluationSet) -> None:
    """Train or resume; then decode."""
    training = RunFolder(run.folder / "run")
    began = time.monotonic()
    train_or_resume(training, RECIPE, run.overrides(options))
    reporter = default_reporter()
    try:
        outputs = decode_outputs([training.best], dev, [], options.beam, "torch", reporter).texts
    finally:
        reporter.close()
    write_atomic(run.outputs, "".join(line + "\n" for line in outputs))
    parameters = sum(weight.numel() for weight in load_model(training.best).model.parameters())
    about = {"budget": options.budget, "threads": options.threads, "settings": options.settings}
    about |= {"parameters": parameters}
    about |= {"updates": updates_of(training), "seconds": round(time.monotonic() - began)}
    # Written last: it says that the run is finished.
    write_atomic(run.about, json.dumps(about) + "\n")


def updates_of(training: RunFolder) -> int:
    lines = (json.loads(line) for line in training.metrics.read_text(encoding="utf-8").splitlines())
    return max(int(line.get("update", 0)) for line in lines)


def table(runs: list[Run], dev: EvaluationSet, metric: Metric) -> list[str]:
    """Markdown; each run against the unchanged recipe of its seed."""
    lines = [
        f"| change | seed | parameters | updates | {metric.title} | difference | p (bootstrap, randomisation) | |",
        "|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for seed in sorted({run.seed for run in runs}):
        done = [run for run in runs if run.seed == seed and run.finished]
        if len(done) < 2 or done[0].settings:
            continue
        systems = {run.folder.name: read_outputs(run.outputs, dev) for run in done}
        scores = compare_outputs(systems, dev, [metric]).scores
        lines += [row(run, metric, scores[run.folder.name][0]) for run in done]
    return lines


def row(run: Run, metric: Metric, score: SystemScore) -> str:
    about = json.loads(run.about.read_text(encoding="utf-8"))
    test = score.test
    tested = (
        ["", ""] if test is None else [f"{test.difference:+.2f}", f"{test.bootstrap:.3f}, {test.randomization:.3f}"]
    )
    value = f"{score.value:.2f} ± {score.interval.half_width:.2f}"
    cells = [run.name, run.seed, f"{about['parameters']:,}", f"{about['updates']:,}", value, *tested]
    return "| " + " | ".join(map(str, cells)) + f" | {verdict(metric, score)} |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--out", type=Path, default=Path("runs/compare-parts"))
    parser.add_argument("--budget", default="20m", help="of each run, such as 20m or 3000u")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=["positions", "wiring"])
    parser.add_argument("--change", nargs="+", action="append", default=[], metavar=("NAME", "key=value"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of the recipe, for all runs")
    parser.add_argument("--table", action="store_true", help="only print the table of what is finished")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    dev = read_evaluation_set([options.data / "val.de"], options.data / "val.en", None)
    (metric,) = choose_metrics(["bleu_tok_lc"], "de")
    runs = list(all_runs(options))
    for run in runs:
        if not (run.finished or options.table):
            do(run, options, dev)
    print("\n".join(table(runs, dev, metric)))
    how = " ".join([options.budget, *options.settings])
    print(f"\n{metric.signature(dev.references)}; budget {how}, {options.threads} threads")


if __name__ == "__main__":
    main()
