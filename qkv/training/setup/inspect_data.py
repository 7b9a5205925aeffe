"""Inspects the data of a recipe as training would prepare it, without keeping the result."""

import tempfile
from pathlib import Path

from qkv.data.tasks import task_of
from qkv.data.tasks.base import CheckReport
from qkv.training.recipe import Recipe
from qkv.training.setup.advice import advise
from qkv.training.setup.prepare import CountingFactory, PreparedData, make_tokenizers, require_fitting


def inspect_data(recipe: Recipe, counting: CountingFactory) -> CheckReport:
    """Prepare train, dev and test in a temporary folder and report on them; the run folder is not touched."""
    task = task_of(recipe.data)
    parts = task.parts(counting("Reading"), with_test=True)
    with tempfile.TemporaryDirectory(prefix="qkv-") as name:
        folder = Path(name)
        tokenizers = make_tokenizers(recipe, parts["train"], folder / "tokenizer", counting)
        stores = task.prepare(parts, tokenizers, folder / "data", counting(f"Preparing {task.unit}"))
        require_fitting(recipe, stores)
        report = task.check(stores, tokenizers, recipe.batch, recipe.seed, counting("Looking"))
        prepared = PreparedData(tokenizers, stores["train"], stores.get("dev"))
        return report.with_advice(advise(recipe, prepared, report.overlaps.get("dev"), stores.get("test")))
