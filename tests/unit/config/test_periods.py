"""Amounts with units."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from qkv.config import Period
from qkv.config.periods import Unit


@pytest.mark.parametrize(
    ("text", "amount", "unit", "written"),
    [
        ("500u", 500, "updates", "500u"),
        ("2Mt", 2e6, "tokens", "2Mt"),
        ("3e", 3, "epochs", "3e"),
        ("10m", 10, "minutes", "10m"),
        ("10Ku", 1e4, "updates", "10Ku"),
        ("10ku", 1e4, "updates", "10Ku"),
        ("1.1Mt", 1_100_000, "tokens", "1100Kt"),
        ("1.009Ku", 1009, "updates", "1009u"),
        ("1Gt", 1e9, "tokens", "1Gt"),
        ("1500u", 1500, "updates", "1500u"),
        ("0.5e", 0.5, "epochs", "0.5e"),
        ("1.5m", 1.5, "minutes", "1.5m"),
        ("90s", 1.5, "minutes", "1.5m"),
        ("2h", 120, "minutes", "120m"),
        ("100e", 100, "epochs", "100e"),
    ],
)
def test_parse_and_write(text: str, amount: float, unit: str, written: str) -> None:
    period = Period.parse(text)
    assert (period.amount, period.unit) == (amount, unit)
    assert str(period) == written
    assert Period.parse(written) == period


@pytest.mark.parametrize(
    "text",
    [
        "",
        "500",
        "u",
        "-5u",
        "0u",
        "0.5u",
        "1.0001Ku",
        "5x",
        "10M",
        "5Mm",
        "1e3u",
        "5 u",
        " 5u",
        "5u\n",
        "٣u",
        "9" * 400 + "e",
    ],
)
def test_bad_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"period|whole"):
        Period.parse(text)


@pytest.mark.parametrize("value", [500, 0.5, True, None, [1]])
def test_a_bare_number_is_refused_with_the_units(value: object) -> None:
    with pytest.raises(ValidationError, match='"500u" \\(updates\\)') as caught:
        TypeAdapter(Period).validate_python(value)
    assert ("has no unit" in str(caught.value)) == (value in (500, 0.5))


def test_an_unknown_unit_is_refused() -> None:
    unknown: Any = "steps"
    with pytest.raises(ValueError, match="no unit of a period"):
        Period(1, unknown)


_amounts = st.floats(min_value=1e-9, max_value=1e15)


@given(_amounts, st.sampled_from(["epochs", "minutes"]))
def test_fractions_round_trip(amount: float, unit: Unit) -> None:
    assert Period.parse(str(Period(amount, unit))) == Period(amount, unit)


@given(st.integers(1, 2**53), st.sampled_from(["updates", "tokens"]))
def test_counts_round_trip(amount: int, unit: Unit) -> None:
    assert Period.parse(str(Period(amount, unit))) == Period(amount, unit)


def test_json_is_the_text_and_the_schema_its_pattern() -> None:
    adapter = TypeAdapter(Period)
    assert adapter.dump_python(Period(2e6, "tokens"), mode="json") == "2Mt"
    assert adapter.validate_python(Period(1, "epochs")) == Period(1, "epochs")
    schema = adapter.json_schema()
    assert schema["type"] == "string"
    assert schema["pattern"].startswith("^")
