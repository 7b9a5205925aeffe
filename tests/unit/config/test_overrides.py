"""`key.sub=value` laid over data."""

from typing import Any

import pytest

from qkv.config import apply_overrides
from qkv.core.errors import UsageError


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("[1,2]", [1, 2]),
        ("{b: [no, 1e-4]}", {"b": ["no", 1e-4]}),
        ("1e-4", 1e-4),
        ("8", 8),
        ("no", "no"),
        ("true", True),
        ("null", None),
        ("'null'", "null"),
        ('""', ""),
        ("a=b", "a=b"),
        ("x: y # z", "x: y # z"),
        ("*.txt", "*.txt"),
        ("!!python/object:x", "!!python/object:x"),
        (" 8 ", 8),
    ],
)
def test_values_are_yaml_scalars_or_flow_collections(value: str, read: Any) -> None:
    result = apply_overrides({}, [f"a={value}"])["a"]
    assert result == read
    assert type(result) is type(read)


def test_nested_keys_lists_and_new_groups_leave_the_input_alone() -> None:
    data = {"data": {"train": [{"src": "a"}, {"src": "b"}]}, "model": None}
    result = apply_overrides(data, ["data.train.1.src=c", "model.depth=2", "new.inner.key=x", "model.width=4"])
    assert result["data"]["train"] == [{"src": "a"}, {"src": "c"}]
    assert result["model"] == {"depth": 2, "width": 4}
    assert result["new"] == {"inner": {"key": "x"}}
    assert data == {"data": {"train": [{"src": "a"}, {"src": "b"}]}, "model": None}


def test_a_whole_list_item_can_be_replaced() -> None:
    assert apply_overrides({"a": [1, 2]}, ["a.0={b: 3}"]) == {"a": [{"b": 3}, 2]}


def test_later_overrides_win() -> None:
    assert apply_overrides({}, ["a.b=1", "a={c: 2}", "a.d=3"]) == {"a": {"c": 2, "d": 3}}


def test_a_key_inside_a_bare_kind() -> None:
    assert apply_overrides({"p": "learned"}, ["p.size=3"]) == {"p": {"kind": "learned", "size": 3}}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.num_heads", 'has no "="; write key.sub=value'),
        ("=3", "words joined by dots; write key.sub=value"),
        (".a=3", "words joined by dots"),
        ("a..b=3", "words joined by dots"),
        ("a .b=3", "words joined by dots"),
        ("a=", "key=null for nothing"),
        ("a=[1", "is not YAML: a bracket is opened"),
        ("a=[!!python/name:os.system ]", "tags are not allowed"),
        ("a={b: 1, b: 2}", "given twice"),
        ("a=" + "9" * 5000, "too many digits"),
        ("list.2=3", "list has items 0 to 1; to add one, give the whole list"),
        ("list.-1=3", "name the item by its number from 0"),
        ("list.x=3", "name the item by its number from 0"),
        ("list.²=3", "name the item by its number from 0"),
        ("list." + "9" * 5000 + "=3", "items 0 to 1"),
        ("empty.0=3", "empty has no items"),
        ("number.x=3", 'number is 4, so it has no "x" inside'),
        ("number.x.y=3", 'number is 4, so it has no "x" inside'),
    ],
)
def test_bad_overrides_say_where_they_came_from(override: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_overrides({"list": [1, 2], "empty": [], "number": 4}, [override])
    message = str(caught.value)
    assert message.startswith(f"command line: {override[:50]}")
    assert words in message
    assert len(message) < 300
