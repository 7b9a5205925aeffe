"""The dev and test data that a run's own recipe names."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qkv.config import load_config
from qkv.core.errors import DataError, UsageError
from qkv.data.aligned import stored_pairs
from qkv.data.config import PairsConfig
from qkv.data.store import PairStore
from qkv.evaluation.files import EvaluationSet, read_corpus, set_of_pairs
from qkv.models.asked import require_seq2seq
from qkv.training.recipe import Recipe, SavedRecipe
from qkv.training.run.folder import RunFolder

SPLITS = ("test", "dev")


def own_test_sets(model: Path, splits: Sequence[str] = SPLITS) -> dict[str, EvaluationSet]:
    """The data that the recipe of a run has for `splits`, in this order; at least one of them.

    `model` is the folder of the run or of its best model.
    """
    run = _run_of(model)
    if run is None:
        raise UsageError(f"{model}: is not a run, whose recipe would name test data; give the data by --data FILE")
    recipe = load_config(SavedRecipe, run.config)
    require_seq2seq(recipe.model, model)
    read = {split: test for split in splits if (test := _read(recipe, run, split)) is not None}
    found = {split: replace(test, language=recipe.validation.language) for split, test in read.items()}
    if not found:
        keys = " or ".join(f"data.{split}" for split in splits)
        raise UsageError(f"{run.config}: names no {keys}; give the data by --data FILE")
    return found


def own_recipe(model: Path) -> SavedRecipe | None:
    """The recipe of a run, by the folder of the run or of its best model; None for what is not a run."""
    run = _run_of(model)
    return None if run is None else load_config(SavedRecipe, run.config)


def own_files(model: Path, split: str) -> tuple[Path, ...] | None:
    """The files that a run's recipe names for `split`, if any; None for what is not a run."""
    run = _run_of(model)
    if run is None:
        return None
    data = load_config(SavedRecipe, run.config).data
    if not isinstance(data, PairsConfig):
        return ()
    corpus = data.test if split == "test" else data.dev
    return () if corpus is None else tuple(data.root / path for path in corpus.files().values())


def _run_of(model: Path) -> RunFolder | None:
    """The run that a folder is, or whose best model it is."""
    runs = (RunFolder(folder) for folder in (model, model.parent))
    return next((run for run in runs if run.config.is_file() and run.checkpoints.is_dir()), None)


def _read(recipe: Recipe, run: RunFolder, split: str) -> EvaluationSet | None:
    data = recipe.data
    if not isinstance(data, PairsConfig):
        return None
    corpus = data.test if split == "test" else data.dev
    # Pairs that were held out of the training data, or were in memory, are kept in the run alone.
    held_out = corpus is None and data.holdout is not None
    in_memory = corpus is not None and not corpus.files()
    if split == "dev" and (held_out or in_memory):
        return set_of_pairs(str(run.dev_data), _pairs(run.dev_data))
    if corpus is None:
        return None
    for path in corpus.files().values():
        if not (data.root / path).exists():
            raise DataError(
                f"{data.root / path}: no such file, although {run.config} names it as data.{split}; "
                "go to the folder where the run was started, or give the data by --data FILE"
            )
    return read_corpus(corpus, data.root, data.invalid_utf8)


def _pairs(store: Path) -> list[tuple[str, str]]:
    return [(src, tgt) for src, tgt in stored_pairs(PairStore.open(store))]
