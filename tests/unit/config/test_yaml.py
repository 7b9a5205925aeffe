"""Reading YAML 1.2 safely, and writing what reads back equal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from qkv.config.parse import MAX_DEPTH, MAX_NODES, YamlProblem, parse_yaml
from qkv.config.yaml import MAX_BYTES, read_yaml, write_yaml
from qkv.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("tRUE", "tRUE"),
        ("1e-4", 1e-4),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("+.inf", float("inf")),
        ("12", 12),
        ("-3", -3),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2001-01-01", "2001-01-01"),
        ("1.2.3", "1.2.3"),
        ("null", None),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ('"null"', "null"),
        ('""', ""),
        ("[1, a, {b: no}]", [1, "a", {"b": "no"}]),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_values_follow_the_core_schema(text: str, value: Any) -> None:
    read = parse_yaml(f"key: {text}").data["key"]
    assert read == value
    assert type(read) is type(value)


def test_keys_are_text_as_written() -> None:
    assert parse_yaml("on: 1\n1: 2\nnull: 3\n1e-4: 4").data == {"on": 1, "1": 2, "null": 3, "1e-4": 4}


def test_lines_of_keys_items_and_aliases() -> None:
    document = parse_yaml("# comment\na:\n  b: &x\n    - 1\n    - {c: 2}\nd: *x\n")
    assert document.data["d"] == [1, {"c": 2}]
    places = [("a",), ("a", "b"), ("a", "b", 1), ("a", "b", 1, "c"), ("d",), ("d", 1, "c")]
    assert [document.line_of(place) for place in places] == [2, 3, 5, 5, 6, 5]
    assert [document.line_of(place) for place in [("x",), ("a", "b", 2), ("a", "b", -1), ("a", 0)]] == [None] * 4


def test_aliased_values_are_not_shared() -> None:
    data = parse_yaml("a: &x [1]\nb: *x").data
    data["a"].append(2)
    assert data["b"] == [1]


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb:\n  c: 2\n  d: 3\n  c: 4\n", 5, 'key "c" is given twice (first in line 3); remove one'),
        ("x: 1\n'x': 2\n", 2, "given twice"),
        ("a: {b: 1, b: 2}", 1, "given twice"),
        (_bomb(9), 4, "aliases written out"),
        ("a: 1\nb: " + "[" * 100_000, 2, "deeper than"),
        ("a: 1\nb: " + "{a: " * 100_000, 2, "deeper than"),
        ("- " * 100_000 + "x", 1, "deeper than"),
        ("a: &a " + "[" * 60 + "]" * 60 + "\nb: [[[[[*a]]]]]", 2, "deeper than"),
        ("- x\n" * (MAX_NODES + 1), MAX_NODES, "values"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", 2, "remove !!python/object/apply:os.system"),
        ("a: !!str 3", 1, "remove !!str"),
        ("a: !env HOME", 1, "remove !env"),
        ("a: !e!x HOME", 1, "tags are not allowed"),
        ("!!map\na: 1", 1, "remove !!map"),
        ("!!str a: 1", 1, "plain word"),
        ("a: 1\nb: &x [*x]", 2, "contains itself"),
        ("a: *missing", 1, "no &missing before"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "write the keys out"),
        ("[1, 2]: 3", 1, "plain word"),
        ("a: 1\n: 3", 2, "nothing before"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("%YAML 1.1\n---\na: no", 2, "YAML 1.2"),
        ("a:\n\tb: 1", 2, "use spaces"),
        ("a: 1\nb: c: d", 2, "in quotes"),
        ("a: @x", 1, "in quotes"),
        ("a: 'x", 1, "close it"),
        ("a: [1", 1, "close it"),
        ("a: 1\nb: \x01", 2, "control character"),
        ("a: 1\nb: " + "9" * 5000, 2, "too many digits"),
        ('a: 1\nb: "x\\ud800"', 2, "half a character"),
        ('a: 1\n"\\udfff": 2', 2, "half a character"),
        ("", None, "nothing in it"),
        ("# only a comment\n", None, "nothing in it"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, line: int | None, words: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        parse_yaml(text)
    assert words in str(caught.value)
    assert caught.value.line == line


def test_of_a_file_with_too_many_values_no_more_is_parsed_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser is slow: what it has not looked at cost nothing."""
    events = 0
    parse = YAML.parse

    def counted(*given: Any) -> Iterator[Any]:
        nonlocal events
        for event in parse(*given):
            events += 1
            yield event

    monkeypatch.setattr(YAML, "parse", counted)
    with pytest.raises(YamlProblem, match="more than 4000 values"):
        parse_yaml("".join(f"k{number}: {number}\n" for number in range(20_000)))
    assert events < 2 * MAX_NODES + 10


def test_depth_and_size_just_within_the_limits_are_read() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_yaml(deep).data
    assert len(parse_yaml("- x\n" * (MAX_NODES - 1)).data) == MAX_NODES - 1


def _complaint(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_file_problems_name_the_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("a: 1\na: 2\n")
    assert _complaint(path) == f'{path}:2: key "a" is given twice (first in line 1); remove one'
    path.write_text("")
    assert _complaint(path).startswith(f"{path}: nothing in it")
    path.write_bytes(b"a: 1\nb: \xff\xfe\x00\x80")
    assert _complaint(path) == f"{path}:2: is not UTF-8 text; save the file as UTF-8"
    path.write_bytes(b"a: 1\nb: \x00\x01")
    assert _complaint(path).startswith(f"{path}:2: control character")
    path.write_text("#" * (MAX_BYTES + 1))
    assert "larger than 256 KiB" in _complaint(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("a: 1")
    assert _complaint(tmp_path / "recipes.yaml").endswith(f'no such file; did you mean "{tmp_path}/recipe.yaml"?')
    assert _complaint(tmp_path / "nowhere" / "zzz.yaml").endswith("zzz.yaml: no such file")
    assert "is a folder" in _complaint(tmp_path)
    assert "cannot be read" in _complaint(tmp_path / "a\0b")


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: x\r\n")
    assert read_yaml(path).data == {"a": 1, "b": "x"}


def test_writing_keeps_the_order_and_quotes_what_old_readers_misread() -> None:
    text = write_yaml({"b": "no", "a": ["500u", "1e3", None, 1e-8, "../x.txt", "1_0"]})
    assert text == 'b: "no"\na:\n- 500u\n- "1e3"\n- null\n- 1e-08\n- ../x.txt\n- "1_0"\n'


def test_writing_the_same_list_twice_makes_no_alias() -> None:
    shared = [1]
    assert "*" not in write_yaml({"a": shared, "b": shared})


_text = st.text() | st.text("0123456789.eExo_+-:~#'\"[]{},&*!|>%@`?= \n\r\tnulyesf<\x85\u2028\ufeff\x7f\x00")
_scalar = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _text
_data = st.recursive(_scalar, lambda inner: st.lists(inner) | st.dictionaries(_text, inner), max_leaves=10)


@given(_data)
def test_what_is_written_reads_back_equal(data: Any) -> None:
    read = parse_yaml(write_yaml(data)).data
    assert read == data
    assert repr(read) == repr(data)
