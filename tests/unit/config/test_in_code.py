"""Configurations that are built in code: the same sentences as for a file, and no error of pydantic's own."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from qkv.config import load_config, with_overrides
from qkv.core.errors import ArgumentError, ConfigError
from qkv.data.config import PairsConfig
from qkv.models.transformer.config import TransformerConfig
from qkv.search.beam import BeamConfig
from qkv.text import TextConfig
from qkv.training.recipe import Recipe, TrainingConfig

DATA: dict[str, Any] = {"train": {"kind": "tsv", "path": "pairs.tsv"}}
TEXT: dict[str, Any] = {"shared": "char"}


def recipe(**keys: Any) -> Recipe:
    return Recipe(**{"data": DATA, "text": TEXT, **keys})


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: BeamConfig(size=0), "BeamConfig: size: must be at least 1, not 0"),
        (lambda: BeamConfig(sise=3), 'BeamConfig: sise: unknown key of kind "beam"; did you mean "size"?'),
        (lambda: BeamConfig(size=3, groups=2), "BeamConfig: size 3 cannot be divided into 2 groups of one size"),
        (lambda: BeamConfig(length_penalty="pwr"), 'BeamConfig: length_penalty: unknown kind "pwr"'),
        (
            lambda: recipe(model={"d_modl": 5}),
            'Recipe: model.d_modl: unknown key of kind "transformer"; did you mean "d_model"?',
        ),
        (lambda: recipe(training={"stop_after": 5}), "Recipe: training.stop_after: 5 has no unit"),
        (lambda: recipe(batch=BeamConfig()), "Recipe: batch: must be a group of keys, not an object of the type Beam"),
        (lambda: recipe(seed=object()), "Recipe: seed: must be a whole number, not an object of the type object"),
        (lambda: recipe(data=None), "Recipe: data: must be one of the kinds of data ("),
        (lambda: Recipe(), "Recipe: data: is missing; add it (one of the kinds of data ("),
        (
            lambda: recipe(validation={"patience": 3}),
            "Recipe: validation.metrics and validation.patience need dev data",
        ),
        (lambda: Recipe.model_validate({"data": DATA, "text": TEXT, "sed": 1}), "Recipe: sed: unknown key"),
        (lambda: Recipe.model_validate(None), "Recipe: must be a group of keys, not null (empty)"),
        (lambda: recipe().model_copy(update={"seed": "x"}), 'Recipe: seed: must be a whole number, not the text "x"'),
        (lambda: recipe().model_copy(update={"sede": 1}), 'Recipe: sede: unknown key; did you mean "seed"?'),
    ],
)
def test_a_wrong_key_is_one_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert str(caught.value).startswith(sentence)
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, ValidationError)
    # A traceback that also shows pydantic's error would be its raw error all the same.
    assert caught.value.__context__ is None


def wrong(called: Any) -> Any:
    """To be called with what it does not take."""
    return called


def test_keys_have_names() -> None:
    with pytest.raises(ArgumentError, match=r"BeamConfig takes its keys by name: BeamConfig\(key=value, ...\)"):
        wrong(BeamConfig)(5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: wrong(load_config)(Recipe, None), "load_config takes a class, then a file (str or Path), not null"),
        (
            lambda: wrong(load_config)("recipe.yaml", Recipe),
            "load_config takes a class such as Recipe, then a file, not the text",
        ),
        (lambda: with_overrides(Recipe, {}, "seed=1", "x"), 'overrides: must be a list of texts such as ["model.num'),
        (lambda: wrong(with_overrides)(Recipe, {}, None, "x"), "overrides: must be a list of texts"),
        (
            lambda: wrong(with_overrides)(Recipe, {}, [3], "x"),
            "an override: must be a text such as model.num_heads=8, not 3",
        ),
        (lambda: wrong(recipe().model_copy)(update=["seed"]), "update: must be a dict of keys and values, not list"),
    ],
)
def test_a_wrong_type_is_one_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"size": 0}', "BeamConfig: size: must be at least 1, not 0"),
        ("{", "BeamConfig: invalid JSON: "),
        (None, "BeamConfig: must be a group of keys, not null (empty)"),
    ],
)
def test_json_is_explained_too(text: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BeamConfig.model_validate_json(text)
    assert str(caught.value).startswith(sentence)


def test_a_config_does_not_change() -> None:
    made = recipe()
    with pytest.raises(
        ConfigError, match=r'Recipe\.seed: a config does not change; .*model_copy\(update={"seed": ...}'
    ):
        made.seed = 3
    with pytest.raises(ConfigError, match=r"Recipe\.seed: a config does not change"):
        del made.seed
    assert made.seed == 1


def test_a_changed_copy_is_a_whole_config() -> None:
    other = recipe().model_copy(update={"run": "runs/other", "model": {"d_model": 64}})
    assert other.run == Path("runs/other")
    assert other.model == TransformerConfig(d_model=64)
    assert other == recipe(run="runs/other", model={"d_model": 64})


def test_groups_are_configs_or_dicts() -> None:
    built = Recipe(
        data=PairsConfig(train=DATA["train"]), text=TextConfig(shared="char"), training=TrainingConfig(stop_after="5u")
    )
    assert built == recipe(training={"stop_after": "5u"})


def test_an_error_travels_between_processes() -> None:
    error = ConfigError("BeamConfig: size: must be at least 1, not 0")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
