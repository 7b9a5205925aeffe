"""Every registered kind gives an example of itself, which is written and read back as what it is."""

import importlib
import pkgutil
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

import qkv
from qkv.config.base import Config, Kinds


def registries() -> dict[str, Kinds[Any]]:
    """All of the package, found by looking into every module."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(qkv.__path__, "qkv.")]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Kinds)]
    return {each.name: each for each in found}


ALL = [(name, kind) for name, kinds in registries().items() for kind in kinds.names()]


def test_the_registries_are_found() -> None:
    assert {"attention", "positions", "search", "decoder", "corpus", "tokenizer", "model"} <= set(registries())


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_an_example_comes_back(name: str, kind: str) -> None:
    kinds = registries()[name]
    example = kinds.example(kind)
    assert type(example) is kinds[kind]
    read: Any = TypeAdapter(Annotated[Config, kinds]).validate_python(example.model_dump(mode="json"))
    assert read == example
