"""Train on a Python list of pairs: a recipe that fits them, and the run of it."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qkv.config import validate
from qkv.config.overrides import put_at
from qkv.config.parse import parse_yaml
from qkv.core.errors import ArgumentError, DataError, UsageError
from qkv.data.readers.memory import MemoryCorpus
from qkv.recipes.compose import compose
from qkv.recipes.discover import Found
from qkv.recipes.init import FEWEST
from qkv.recipes.profile import profile_pairs
from qkv.training.progress import TrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from qkv.translate.sources import TextPair, checked_pairs
from qkv.translate.translator import Translator


def train(
    pairs: Iterable[TextPair],
    dev: Iterable[TextPair] | None = None,
    reporter: TrainingReporter | None = None,
    **overrides: object,
) -> Translator:
    """Train a model on pairs of texts and return it, ready to translate.

    Sizes, tokenisers, schedule and length of the run fit the pairs (see `recipe_for`); progress goes to stderr. The
    run is kept in a folder, by default one named after the pairs and the settings, so a notebook cell that runs again
    trains nothing twice: it continues a run that was interrupted, and returns the model of one that is finished.

    Args:
        pairs: (source, target) texts to learn from.
        dev: pairs to choose the best model by; by default some of `pairs` are held out.
        reporter: what shows the progress.
        **overrides: keys of the [recipe](configuration.md), with two underscores for a dot: `model__d_model=64` sets
            one key, `model={...}` replaces the whole group, `run="runs/mine"` chooses the folder.

    Returns:
        A `Translator` of the best model.

    Examples:
        >>> from qkv import train
        >>> pairs = [(word, word[::-1]) for word in "abc bca cab acb bac cba aab abb bbc ca".split()]
        >>> model = train(pairs, run="runs/reverse", training__stop_after="2u", data__holdout=1)
        >>> isinstance(model.translate("abc").text, str)
        True
    """
    result = Trainer(recipe_for(pairs, dev, **overrides), reporter).train()
    if not result.finished:
        raise KeyboardInterrupt(f"{result.run}: stopped after {result.updates:,} updates; call train again to continue")
    return Translator(result.run)


def recipe_for(pairs: Iterable[TextPair], dev: Iterable[TextPair] | None = None, **overrides: object) -> Recipe:
    """The recipe by which `train` trains: that of `qkv init` for these pairs, with the overrides.

    Examples:
        >>> from qkv import recipe_for
        >>> recipe = recipe_for([("abc", "cba"), ("ab", "ba")] * 5, model__d_model=32, seed=2)
        >>> recipe.model.d_model, recipe.model.num_heads, recipe.seed, recipe.text.shared.kind
        (32, 4, 2, 'char')
    """
    train_pairs = checked_pairs(pairs)
    data = _suggested(train_pairs, with_dev=dev is not None)
    data["data"]["train"] = MemoryCorpus(pairs=train_pairs)
    if dev is not None:
        data["data"]["dev"] = MemoryCorpus(pairs=checked_pairs(dev, "dev"))
    for name, value in overrides.items():
        if name in ("data", "data__train", "data__dev"):
            raise ArgumentError(f"{name}: the pairs are the data; give them as train(pairs, dev=...)")
        try:
            put_at(data, name.split("__"), value)
        except ValueError as problem:
            raise UsageError(f"{name}: {problem}") from None
    recipe = validate(Recipe, data, "train")
    return recipe if "run" in overrides else recipe.model_copy(update={"run": _own_folder(recipe)})


def _suggested(pairs: list[TextPair], with_dev: bool) -> dict[str, Any]:
    profile = profile_pairs(pairs)
    if profile.pairs < FEWEST:
        raise DataError(f"pairs: there are {profile.pairs}, too few to learn from; give at least {FEWEST}")
    memory = {"kind": "memory"}
    found = Found("pairs", Path("."), memory, memory if with_dev else None, None)
    suggested: dict[str, Any] = parse_yaml(compose(found, profile, Path("runs/pairs"))).data
    return suggested


def _own_folder(recipe: Recipe) -> Path:
    """Named after everything that decides the run, so that other pairs or settings get another folder."""
    decides = json.dumps(recipe.model_dump(mode="json", exclude={"run"}), sort_keys=True)
    return Path("runs", f"pairs-{hashlib.sha256(decides.encode()).hexdigest()[:10]}")
