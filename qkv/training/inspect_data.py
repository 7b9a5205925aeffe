"""The data of a recipe as training would prepare it, looked at and thrown away."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from qkv.data.check import DataReport, Reach, check_data
from qkv.data.length_limit import LengthLimit
from qkv.data.parts import data_parts
from qkv.data.prepare import prepare_data
from qkv.decoding.usual import usual_search
from qkv.models.folder import SavedConfig
from qkv.training.advice import advise
from qkv.training.prepare import Counting, Prepared, make_tokenizers
from qkv.training.recipe import Recipe


def inspect_data(recipe: Recipe, counting: Counting) -> DataReport:
    """Prepare train, dev and test in a temporary folder and report on them; the run folder is not touched."""
    parts = data_parts(recipe.data, counting("Reading"), with_test=True)
    with tempfile.TemporaryDirectory(prefix="qkv-") as name:
        folder = Path(name)
        tokenizers = make_tokenizers(recipe, parts["train"], folder / "tokenizer", counting)
        stores = prepare_data(recipe.data, parts, tokenizers, folder / "data", counting("Preparing pairs"))
        reach = partial(_reach, recipe)
        report = check_data(stores, tokenizers, recipe.batch, recipe.seed, counting("Looking"), reach)
        return replace(report, advice=advise(recipe, Prepared(tokenizers, stores["train"], stores.get("dev"))))


def _reach(recipe: Recipe, limit: LengthLimit) -> dict[str, Reach]:
    """How long an output may be: in validation by its own search, afterwards by the usual one."""
    usual = usual_search(SavedConfig(model=recipe.model, text=recipe.text)).within(limit)
    validating = usual if recipe.validation.search is None else recipe.validation.search.within(limit)
    most = recipe.model.positions.limit
    return {
        "dev": Reach(lambda length: validating.limits(length, most).max_length, "validation.search.max_length"),
        "test": Reach(lambda length: usual.limits(length, most).max_length, "search.max_length of qkv evaluate"),
    }
