"""Inspects the data of a recipe as training would prepare it, without keeping the result."""

import tempfile
from dataclasses import replace
from pathlib import Path

from qkv.data.check import DataReport, check_data
from qkv.data.parts import data_parts
from qkv.data.prepare import prepare_data
from qkv.training.recipe import Recipe
from qkv.training.setup.advice import advise, out_of_reach
from qkv.training.setup.prepare import CountingFactory, PreparedData, make_tokenizers


def inspect_data(recipe: Recipe, counting: CountingFactory) -> DataReport:
    """Prepare train, dev and test in a temporary folder and report on them; the run folder is not touched."""
    parts = data_parts(recipe.data, counting("Reading"), with_test=True)
    with tempfile.TemporaryDirectory(prefix="qkv-") as name:
        folder = Path(name)
        tokenizers = make_tokenizers(recipe, parts["train"], folder / "tokenizer", counting)
        stores = prepare_data(recipe.data, parts, tokenizers, folder / "data", counting("Preparing pairs"))
        report = check_data(stores, tokenizers, recipe.batch, recipe.seed, counting("Looking"))
        advice = advise(
            recipe, PreparedData(tokenizers, stores["train"], stores.get("dev")), report.overlaps.get("dev")
        )
        if "test" in stores:
            advice += out_of_reach("test", stores["test"], recipe, report.length_limit)
        return replace(report, advice=advice)
