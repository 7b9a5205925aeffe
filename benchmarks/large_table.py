"""Do tables larger than memory make series that can be trained on?

    python benchmarks/large_table.py --rows 1000000 --columns 3

Writes random walks as a CSV file, then prepares, checks, trains on, measures and continues them, printing the peak
resident memory after each stage. It includes pages that are mapped from the store, which the system takes back when it
needs them.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from process_memory import peak_bytes

from qkv.data.series.csv import CsvSeries
from qkv.data.series.store import SeriesStore
from qkv.data.tasks import task_of
from qkv.evaluation.forecasting.evaluate import evaluate_forecasts
from qkv.evaluation.forecasting.forecast import Forecaster
from qkv.models.saved.folder import load_model
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.setup.prepare import prepare
from qkv.training.trainer import Trainer

BLOCK = 10_000
MIB = 1 << 20
CONTEXT, HORIZON = 48, 12


@contextmanager
def stage(name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{name:<10} {time.perf_counter() - start:8.1f} s   peak {peak_bytes() / MIB:7.0f} MiB", flush=True)


def write_table(path: Path, rows: int, columns: int, seed: int) -> None:
    random, last = np.random.default_rng(seed), np.zeros(columns)
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["time", *(f"x{column}" for column in range(columns))]) + "\n")
        for first in range(0, rows, BLOCK):
            values = last + random.normal(size=(min(BLOCK, rows - first), columns)).cumsum(axis=0)
            last = values[-1]
            file.writelines(
                ",".join([str(first + row), *(f"{value:.6f}" for value in own)]) + "\n"
                for row, own in enumerate(values.tolist())
            )


def recipe(folder: Path, updates: int) -> Recipe:
    table = {"kind": "csv", "path": "table.csv"}
    return Recipe.model_validate(
        {
            "run": str(folder / "run"),
            "data": {
                "kind": "series",
                "root": str(folder),
                "train": {**table, "stop": 0.9},
                "dev": {**table, "start": 0.9},
            },
            "batch": {"tokens": 64},
            "model": {"kind": "forecasting", "context": CONTEXT, "horizon": HORIZON, "d_model": 16, "num_layers": 1},
            "training": {"stop_after": f"{updates}u", "threads": 1},
        }
    )


def measure(folder: Path, options: argparse.Namespace) -> None:
    with stage("write"):
        write_table(folder / "table.csv", options.rows, options.columns, options.seed)
    written, numbers = (folder / "table.csv").stat().st_size, 8 * options.rows * options.columns
    print(f"{written / MIB:.1f} MiB of text, {numbers / MIB:.1f} MiB of numbers")
    settings = recipe(folder, options.updates)
    run = RunFolder(settings.run)
    run.create()
    with stage("prepare"):
        prepared = prepare(settings, run, SilentTrainingReporter().counting)
    train, dev = prepared.train, prepared.dev
    assert isinstance(train, SeriesStore)
    assert isinstance(dev, SeriesStore)
    with stage("check"):
        task_of(settings.data).check({"train": train, "dev": dev}, prepared.tokenizers, settings.batch)
    with stage("train"):
        Trainer(settings, SilentTrainingReporter()).train()
    model = load_model(run.path).model
    with stage("evaluate"):
        evaluate_forecasts(model, dev, (CONTEXT, HORIZON), 1, lambda done, total: None, (train, dev))
    with stage("forecast"):
        scratch = folder / "scratch"
        scratch.mkdir()
        Forecaster(run.path).continued(CsvSeries(path=Path("table.csv")).read(folder, scratch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20, help="how long to train")
    parser.add_argument("--folder", type=Path, help="where the temporary files go")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options)


if __name__ == "__main__":
    main()
