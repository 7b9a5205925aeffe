"""The resolved config, the reference page and the schema."""

import json
from collections.abc import Callable
from typing import Any

from qkv.config import Config, dump_config, reference_page, schema


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
    page = reference_page(recipe_class)
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


def test_the_schema_allows_a_bare_kind_only_where_nothing_is_required(recipe_class: type[Config]) -> None:
    made = json.loads(json.dumps(schema(recipe_class)))
    assert made["$schema"].endswith("2020-12/schema")
    options = made["$defs"]["Model"]["properties"]["positions"]["anyOf"]
    assert {"enum": ["learned"]} in options
    assert made["additionalProperties"] is False
    assert made["$defs"]["Model"]["properties"]["num_heads"]["description"] == "Heads of each attention."
