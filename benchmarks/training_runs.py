"""Runs that a benchmark trains: each is a process of its own, and one that was interrupted is resumed."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv.core.files import write_atomic
from qkv.core.progress import default_reporter
from qkv.evaluation.compare import compare_outputs, verdict
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.evaluation.systems import decode_outputs
from qkv.training.run.folder import RunFolder


def tenth_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of a program that trains on a tenth of Multi30k."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of data and runs")
    parser.add_argument(
        "--multi30k", type=Path, required=True, help="folder with train, val, test_2016_flickr .en, .de"
    )
    parser.add_argument("--pairs", type=int, default=2900)
    parser.add_argument("--sources", type=int, default=1000, help="test pairs")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"], help="of matrix products in training")
    return parser


def write_if_other(path: Path, lines: Sequence[str]) -> None:
    """A file that is as it should be stays untouched: a run that is resumed checks that its data has not changed."""
    text = "".join(line + "\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def train_or_resume(run: RunFolder, recipe: Path | str, settings: Sequence[str]) -> None:
    how = ["--resume", str(run.path)] if run.is_used() else [str(recipe), f"run={run.path}", *settings]
    # A process of its own: each run begins with fresh memory and its own number of threads.
    subprocess.run([sys.executable, "-c", "from qkv.cli import main; main()", "train", *how], check=True)


def trained(out: Path, name: str, keys: Mapping[str, Any]) -> RunFolder:
    """The run with these keys as its recipe, in OUT/runs/NAME; OUT/NAME.json has the recipe."""
    recipe, run = out / f"{name}.json", RunFolder(out / "runs" / name)
    write_atomic(recipe, json.dumps(keys, indent=1))
    train_or_resume(run, recipe, [])
    return run


def print_comparison(runs: Mapping[str, RunFolder], test: EvaluationSet, metric: str, language: str) -> None:
    """The test score of the best model of each run, by beam search, with its test against the first; keeps outputs."""
    reporter = default_reporter()
    try:
        outputs = {name: decode_outputs([run.best], test, [], 4, "torch", reporter).texts for name, run in runs.items()}
        compared = compare_outputs(outputs, test, choose_metrics([metric], language), reporter)
    finally:
        reporter.close()
    for name, texts in outputs.items():
        write_atomic(runs[name].path / "test.out", "".join(line + "\n" for line in texts))
    for name, scores in compared.scores.items():
        for found, score in zip(compared.metrics, scores, strict=True):
            p = "" if score.test is None else f", p {max(score.test.bootstrap, score.test.randomization):.3f}"
            value = f"{score.value:.1f} ± {score.interval.half_width:.1f}{p}"
            print(f"{name}\t{found.title}\t{value}\t{verdict(found, score)}")
