"""Every number of every configuration has a largest value, so that none overflows where it is used."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from qkv.config import Config
from qkv.config.load import validate
from qkv.core.errors import UsageError
from qkv.translate.settings import TranslationConfig


def _configs(base: type[Config]) -> list[type[Config]]:
    return [each for below in base.__subclasses__() for each in (below, *_configs(below))]


NUMBERS = [
    (config, name)
    for config in dict.fromkeys(_configs(Config))
    if config.__module__.startswith("qkv.")
    for name, field in config.model_fields.items()
    if any(word in str(field.annotation) for word in ("int", "float"))
]


def _refused(config: type[Config], name: str, value: Any) -> bool:
    try:
        TypeAdapter(config).validate_python({name: value})
    except ValidationError as error:
        return any(problem["loc"][:1] == (name,) for problem in error.errors())
    return False


def test_there_are_numbers() -> None:
    assert len(NUMBERS) > 100


@pytest.mark.parametrize(("config", "name"), NUMBERS, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_a_number_that_cannot_be_computed_with_is_refused(config: type[Config], name: str) -> None:
    for value in (1e300, -1e300, 10**400, -(10**400), 10**30, float("inf"), float("nan")):
        assert _refused(config, name, value), value


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"kind": "sample", "temperature": 1e300}, "temperature: must be at most 1000"),
        ({"kind": "beam", "length_penalty": {"kind": "power", "alpha": 1e6}}, "alpha: must be at most 10"),
        ({"kind": "beam", "max_factor": 1e300}, "max_factor: must be at most"),
        ({"kind": "beam", "size": 10**30}, "size: must be at most"),
    ],
)
def test_the_sentence_names_the_key_and_the_largest_value(search: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        validate(TranslationConfig, {"search": search}, "command line")
