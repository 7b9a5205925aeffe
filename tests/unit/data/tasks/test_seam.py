"""What a recipe says of the kind of its data, and what it refuses."""

from typing import Any

import pytest

from qkv.core.errors import ConfigError
from qkv.data.config import PairsConfig
from qkv.training.recipe import Recipe

PAIRS = {"train": {"kind": "tsv", "path": "train.tsv"}}


def recipe(**changes: Any) -> Recipe:
    return Recipe.model_validate({"data": PAIRS, "text": {"shared": "char"}, **changes})


def test_pairs_are_the_default_kind() -> None:
    assert isinstance(recipe().data, PairsConfig)
    assert recipe(data={"kind": "pairs", **PAIRS}) == recipe()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"text": {}}, "text: data.kind pairs takes shared, or src and tgt; nothing was given"),
        ({"text": {"tgt": "char"}}, "text: data.kind pairs takes shared, or src and tgt; tgt was given"),
        ({"data": {"kind": "pictures", **PAIRS}}, 'data.kind: unknown kind "pictures"'),
    ],
)
def test_a_wrong_combination_is_refused_when_it_is_read(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe(**changes)
    assert sentence in str(caught.value)
