"""Whole configurations: what is accepted, and the sentences for what is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv.config import Config, load_config, validate
from qkv.core.errors import UsageError

Complaint = Callable[..., list[str]]


def test_a_recipe_loads_with_overrides(load: Callable[..., Any]) -> None:
    text = "lang: no\nmodel:\n  num_heads: 1e1\n  d_model: 20\n  positions: learned\ntrain: {src: a}\n"
    recipe = load(text, "model.dropout=1e-4", "train.src=b c", "stop=2h", "extra=[learned, {kind: rotary, base: 3}]")
    assert recipe.lang == "no"
    assert (recipe.model.num_heads, recipe.model.dropout) == (10, 1e-4)
    assert [str(corpus.src) for corpus in recipe.train] == ["b c"]
    assert str(recipe.stop) == "120m"
    assert [kind.kind for kind in recipe.extra] == ["learned", "rotary"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model:\n  num_head: 3", '2: model.num_head: unknown key; did you mean "num_heads"?'),
        ("model:\n  NUM-HEADS: 3", '2: model.NUM-HEADS: unknown key; did you mean "num_heads"?'),
        ("train:\n- src: a\n- src: b\n  zzz: 1", "4: train.1.zzz: unknown key; the keys here are src and weight"),
        ("model:\n  num_heads: x", '2: model.num_heads: must be a whole number, not the text "x"'),
        ("model:\n  num_heads: '8'", '2: model.num_heads: must be a whole number, not the text "8"'),
        ("model:\n  num_heads: true", "2: model.num_heads: must be a whole number, not true"),
        ("model:\n  num_heads: 2.5", "2: model.num_heads: must be a whole number, not 2.5"),
        ("model:\n  num_heads: 1e30", "2: model.num_heads: is far too large: 1e+30"),
        ("model:\n  num_heads:", "2: model.num_heads: must be a whole number, not null (empty)"),
        ("model:\n  num_heads: [1]", "2: model.num_heads: must be a whole number, not a list"),
        ("model:\n  dropout: '0.1'", '2: model.dropout: must be a number, not the text "0.1"'),
        ("model:\n  dropout: 1", "2: model.dropout: must be less than 1.0, not 1"),
        ("model:\n  dropout: -0.5", "2: model.dropout: must be at least 0.0, not -0.5"),
        ("model:\n  dropout: .nan", "2: model.dropout: must be a finite number, not nan"),
        ("model:\n  tie: no", '2: model.tie: must be true or false, not the text "no"; write false'),
        ("model:\n  tie: 1", "2: model.tie: must be true or false, not 1"),
        ("model:\n  norm: prae", '2: model.norm: must be "pre" or "post", not the text "prae"; did you mean "pre"?'),
        ("model:\n  norm: 3", '2: model.norm: must be "pre" or "post", not 3'),
        ("lang: 3", "1: lang: must be text, not 3"),
        ("model: 4", "1: model: must be a group of keys, not 4"),
        ("model: {num_heads: 7}", "1: model: d_model 512 is not a multiple of num_heads 7"),
        ("train: x", '1: train: must be a list (each item a group of keys), not the text "x"'),
        ("train:\n- weight: 2", "2: train.0.src: is missing; add it (a path)"),
        ("train:\n  src: a\n  wight: 2", '3: train.wight: unknown key; did you mean "weight"?'),
        ("counts: {a: x}", '1: counts.a: must be a whole number, not the text "x"'),
        ("betas: [0.9]", "1: betas.1: is missing; add it (a number)"),
        ("betas: [1, 2, 3]", "1: betas: must have at most 2 items"),
    ],
)
def test_a_wrong_value_is_one_line(complaint: Complaint, text: str, line: str) -> None:
    assert complaint(text) == [f"recipe.yaml:{line}"]


KINDS = "the kinds of positions are learned, rotary"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "model:\n  positions: lerned",
            f'2: model.positions: unknown kind "lerned"; did you mean "learned"? ({KINDS})',
        ),
        ("model:\n  positions:\n    kind: xyz", f'3: model.positions.kind: unknown kind "xyz"; {KINDS}'),
        ("model:\n  positions:\n    kind: 3", f'3: model.positions.kind: unknown kind "3"; {KINDS}'),
        (
            "extra:\n- {size: 3}",
            '2: extra.0: has no "kind"; add one of the kinds of positions: learned, rotary',
        ),
        (
            "model:\n  positions: {base: 3}",
            '2: model.positions.base: unknown key of kind "learned"; the keys here are kind and size',
        ),
        (
            "model:\n  positions: 3",
            "2: model.positions: must be one of the kinds of positions (learned, rotary), not 3",
        ),
        ("model:\n  positions: rotary", "2: model.positions.base: is missing; add it (a number)"),
        (
            "model:\n  positions:\n    kind: learned\n    siz: 3",
            '4: model.positions.siz: unknown key of kind "learned"; did you mean "size"?',
        ),
        (
            "model:\n  positions:\n    kind: learned\n    base: 3",
            '4: model.positions.base: unknown key of kind "learned"; the keys here are kind and size',
        ),
        ("extra:\n  kind: learned\n  siz: 3", '3: extra.siz: unknown key of kind "learned"; did you mean "size"?'),
        ("extra:\n- learned\n- kind: rotary\n  base: x", '4: extra.1.base: must be a number, not the text "x"'),
        ("extra:\n- kind: learned\n- lurned", f'3: extra.1: unknown kind "lurned"; did you mean "learned"? ({KINDS})'),
        ("dev:\n- src: a\n  wight: 2", '3: dev.0.wight: unknown key; did you mean "weight"?'),
        ("dev:\n  weight: 2", "1: dev.src: is missing; add it (a path)"),
        ("dev: x", '1: dev: must be a group of keys, a list (each item a group of keys) or null, not the text "x"'),
        ("workers: x", '1: workers: must be a whole number or "auto", not the text "x"'),
        ("workers: 1", "1: workers: must be greater than 2, not 1"),
    ],
)
def test_unions_and_kinds_are_explained_by_the_member_that_was_meant(
    complaint: Complaint, text: str, line: str
) -> None:
    assert complaint(text) == [f"recipe.yaml:{line}"]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.num_head=8", 'model.num_head=8: unknown key; did you mean "num_heads"?'),
        ("model.num_heads=x", 'model.num_heads=x: must be a whole number, not the text "x"'),
        ("model={num_head: 8}", 'model={num_head: 8}: model.num_head: unknown key; did you mean "num_heads"?'),
        ("model.positions=xyz", f'model.positions=xyz: unknown kind "xyz"; {KINDS}'),
        ("model.positions.kind=xyz", f'model.positions.kind=xyz: unknown kind "xyz"; {KINDS}'),
        ("train.0.src=3", "train.0.src=3: must be a path, not 3"),
        ("train.0.wight=3", 'train.0.wight=3: unknown key; did you mean "weight"?'),
        ("dev.weight=3", "dev.weight=3: dev.src: is missing; add it (a path)"),
        ("lang.x=3", "lang.x=3: lang: must be text, not a group of keys"),
        ("model=null", "model=null: must be a group of keys, not null (empty)"),
    ],
)
def test_a_wrong_override_is_named_as_such(complaint: Complaint, override: str, line: str) -> None:
    text = "lang: x\nmodel:\n  num_heads: 4\n  positions:\n    kind: learned\ntrain:\n- src: a\n"
    assert complaint(text, override) == [f"command line: {line}"]


@pytest.mark.parametrize(
    ("text", "overrides", "line"),
    [
        # A problem of a whole group, which the file does not have.
        (
            "model: {d_model: 8, num_heads: 4}",
            ["model.num_heads=3"],
            "command line: model.num_heads=3: model: d_model 8 is not a multiple of num_heads 3",
        ),
        # Only the override that brought it is named.
        (
            "model: {d_model: 8}",
            ["lang=x", "model.tie=false", "model.num_heads=3"],
            "command line: model.num_heads=3: model: d_model 8 is not a multiple of num_heads 3",
        ),
        # Two that do not fit together.
        (
            "lang: x",
            ["model.d_model=9", "model.num_heads=2"],
            "command line: model.d_model=9 and model.num_heads=2: model: d_model 9 is not a multiple of num_heads 2",
        ),
        # The file is wrong with and without the override.
        (
            "lang: x\nmodel: {d_model: 9, num_heads: 2}",
            ["model.tie=false"],
            "recipe.yaml:2: model: d_model 9 is not a multiple of num_heads 2",
        ),
        # The override replaces the group in which the file has the same key.
        (
            "model:\n  tie: true",
            ["model={tie: 3}"],
            "command line: model={tie: 3}: model.tie: must be true or false, not 3",
        ),
        # The word is the file's, though the override makes a group of it.
        (
            "model:\n  positions: lerned",
            ["model.positions.size=3"],
            f'recipe.yaml:2: model.positions.kind: unknown kind "lerned"; did you mean "learned"? ({KINDS})',
        ),
    ],
)
def test_a_problem_of_a_group_names_who_caused_it(
    complaint: Complaint, text: str, overrides: list[str], line: str
) -> None:
    assert complaint(text, *overrides) == [line]


def test_an_override_replaced_by_another_is_not_blamed(complaint: Complaint) -> None:
    assert complaint("lang: x", "model.tie=false", "model={tie: 3}") == [
        "command line: model={tie: 3}: model.tie: must be true or false, not 3"
    ]


def test_what_the_file_gave_keeps_its_line_beside_overrides(complaint: Complaint) -> None:
    assert complaint("model:\n  tie: 3\n", "model.num_heads=x") == [
        "recipe.yaml:2: model.tie: must be true or false, not 3",
        'command line: model.num_heads=x: must be a whole number, not the text "x"',
    ]


def test_all_problems_are_told_in_the_order_of_the_file(complaint: Complaint) -> None:
    lines = complaint("zzz: 1\nmodel:\n  tie: x\n  norms: pre\n  num_heads: x\nlang: 1\n")
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4", "5", "6"]


def test_very_many_problems_are_cut_short(complaint: Complaint) -> None:
    lines = complaint("\n".join(f"key{i}: 1" for i in range(1000)))
    assert len(lines) == 21
    assert lines[-1] == "… and more; fix these first"


def test_control_characters_and_long_texts_do_not_reach_the_terminal(complaint: Complaint) -> None:
    [line] = complaint('"a\\n\\e[31m": 1')
    assert r"a\n\x1b[31m: unknown key" in line
    [line] = complaint(f"model:\n  num_heads: {'x' * 5000}")
    assert len(line) < 200


@pytest.mark.parametrize(("text", "given"), [("- a\n- b", "a list"), ("word", 'the text "word"'), ("null", "null")])
def test_the_top_level_must_be_keys(complaint: Complaint, text: str, given: str) -> None:
    [line] = complaint(text)
    assert line.startswith(f"recipe.yaml:1: must hold key: value lines, not {given}")


def test_no_jargon(complaint: Complaint) -> None:
    text = "lang: 1\nmodel: {tie: x, norm: y, positions: 1, dropout: 9}\nevery: 5\ndev: 1\nextra: 1\nbetas: 1\n"
    message = "\n".join(complaint(text))
    assert len(message.split("\n")) == 9
    for jargon in [
        "pydantic",
        "Input",
        "input",
        "http",
        "Value error",
        "function-before",
        "tagged",
        "dict",
        "NoneType",
    ]:
        assert jargon not in message


def test_validate_names_where_the_data_came_from(recipe_class: type[Config]) -> None:
    with pytest.raises(UsageError) as caught:
        validate(recipe_class, {"model": {"num_head": 3}}, "config.yaml")
    assert str(caught.value) == 'config.yaml: model.num_head: unknown key; did you mean "num_heads"?'
    with pytest.raises(UsageError, match=r"^request: must be a group of keys, not a list$"):
        validate(recipe_class, [], "request")


def test_a_missing_file(recipe_class: type[Config]) -> None:
    with pytest.raises(UsageError, match=r"^nowhere/x\.yaml: no such file$") as caught:
        load_config(recipe_class, Path("nowhere/x.yaml"))
    assert caught.value.exit_code == 2
