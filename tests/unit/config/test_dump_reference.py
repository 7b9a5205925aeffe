"""The resolved config, the reference page and the schema."""

import json
from collections.abc import Callable
from typing import Any

from pydantic import Field
from typer.testing import CliRunner

from qkv.cli.app import app
from qkv.config import Config, dump_config, reference_page, schema
from qkv.config.base import Kinds
from qkv.search.base import searches
from qkv.search.length_penalty import length_penalties
from qkv.training.recipe import Recipe
from qkv.translate.settings import TranslationConfig


def test_a_dumped_config_loads_equal_and_is_complete(load: Callable[..., Any]) -> None:
    first = load(
        "lang: no\nstop: 90s\nextra: [learned, {kind: rotary, base: 1e4}]\ndev: {src: 'a: b'}\ncounts: {on: 1}",
        "model.positions={kind: rotary, base: 1e-5}",
    )
    text = dump_config(first)
    second = load(text)
    assert second == first
    assert type(second.model.positions) is type(first.model.positions)
    assert dump_config(second) == text
    assert "dropout: 0.1\n" in text


def test_the_reference_has_every_key_with_type_default_and_meaning(recipe_class: type[Config]) -> None:
    page = reference_page(recipe_class, "Recipe", "All of it.")
    assert page.startswith("# Recipe\n\nAll of it.\n\n| Key |")
    assert "| `model.num_heads` | a whole number | `8` | Heads of each attention. |" in page
    assert "| `model.dropout` | a number, ≥ 0, < 1 | `0.1` |  |" in page
    assert '| `every` | a period such as "500u" | `"500u"` |  |' in page
    assert "| `model.positions` | [positions](#kinds-of-positions) | `learned` |  |" in page
    assert "| `train` | a list (each item a group of keys) | `[]` |  |" in page
    assert "| `train.*.src` | a path | required |  |" in page
    assert "### positions `learned`\n\nA table of vectors.\n\n| Key |" in page
    assert "| `size` | a whole number, > 0 | `512` | How many positions. |" in page
    assert "| `base` | a number | required | The base \\| of the angles. |" in page
    assert page.count("## Kinds of positions") == 1
    for name in recipe_class.model_fields:
        assert f"| `{name}` |" in page


def test_limits_are_printed_in_full() -> None:
    class Limited(Config):
        whole: int = Field(default=1, ge=1, le=1 << 20)
        real: float = Field(default=1.0, gt=0.5, le=1e9)

    page = reference_page(Limited, "Limited", "")
    assert "| `whole` | a whole number, ≥ 1, ≤ 1,048,576 |" in page
    assert "| `real` | a number, > 0.5, ≤ 1e+09 |" in page


def test_the_schema_allows_a_bare_kind_only_where_nothing_is_required(recipe_class: type[Config]) -> None:
    made = json.loads(json.dumps(schema(recipe_class)))
    assert made["$schema"].endswith("2020-12/schema")
    options = made["$defs"]["Model"]["properties"]["positions"]["anyOf"]
    assert {"enum": ["learned"]} in options
    assert made["additionalProperties"] is False
    assert made["$defs"]["Model"]["properties"]["num_heads"]["description"] == "Heads of each attention."


def test_the_printed_reference_has_recipes_and_decoding() -> None:
    page = CliRunner().invoke(app, ["config", "reference"]).stdout
    titles = [line for line in page.splitlines() if line.startswith("#")]
    assert len(titles) == len(set(titles)), "two parts with one title have one anchor"
    assert [title for title in titles if title.startswith("# ")] == ["# Recipe", "# Using a model"]
    for cls in (Recipe, TranslationConfig):
        assert all(f"| `{name}` |" in page for name in cls.model_fields)
    kinds: list[tuple[str, Kinds[Any]]] = [("search", searches), ("length penalty", length_penalties)]
    assert {f"### {name} `{kind}`" for name, registry in kinds for kind in registry.names()} <= set(titles)
