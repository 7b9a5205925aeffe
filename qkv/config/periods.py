"""How often, or how long: a number with its unit, such as "500u" for 500 updates."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Unit = Literal["updates", "tokens", "epochs", "minutes"]

EXAMPLES = '"500u" (updates), "2Mt" (target tokens), "3e" (epochs) or "10m" (minutes; also s, h)'
PATTERN = r"^([0-9]+(?:\.[0-9]+)?)(?:([kKMG]?)([ut])|([emsh]))$"

_MULTIPLIERS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_UNITS: dict[str, Unit] = {"u": "updates", "t": "tokens", "e": "epochs", "s": "minutes", "m": "minutes", "h": "minutes"}
_LETTERS: dict[Unit, str] = {"updates": "u", "tokens": "t", "epochs": "e", "minutes": "m"}


@dataclass(frozen=True)
class Period:
    """A positive amount of updates, target tokens, epochs or minutes; `str()` of it parses to the same."""

    amount: float
    unit: Unit

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise ValueError(f'"{self.unit}" is no unit of a period; use {", ".join(get_args(Unit))}')
        if not (math.isfinite(self.amount) and self.amount > 0):
            raise ValueError("a period must be greater than 0 and finite")
        if self.unit in ("updates", "tokens") and self.amount != int(self.amount):
            raise ValueError(f"a number of {self.unit} must be whole")

    @classmethod
    def parse(cls, text: str) -> "Period":
        """Read "500u", "2Mt", "0.5e", "90s"; seconds and hours become minutes. Raises ValueError."""
        match = re.fullmatch(PATTERN, text)
        if match is None:
            raise ValueError(f'"{text[:40]}" is not a period; write a number and its unit: {EXAMPLES}')
        number, multiplier, counted, plain = match.groups()
        letter = counted or plain
        amount = Decimal(number) * _MULTIPLIERS[multiplier or ""]  # decimal: 1.1M is exactly 1100000
        if letter == "s":
            amount /= 60
        elif letter == "h":
            amount *= 60
        return cls(float(amount), _UNITS[letter])

    def __str__(self) -> str:
        amount = Decimal(repr(float(self.amount)))
        prefix = ""
        if self.unit in ("updates", "tokens"):
            prefix = next((p for p in "GMK" if amount % _MULTIPLIERS[p] == 0), "")
        number = f"{amount / _MULTIPLIERS[prefix]:f}"
        return (number.rstrip("0").rstrip(".") if "." in number else number) + prefix + _LETTERS[self.unit]

    @classmethod
    def _validate(cls, value: Any) -> "Period":
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        unit = f"{value} has no unit" if isinstance(value, int | float) and not isinstance(value, bool) else "no period"
        raise ValueError(f"{unit}; write a number and its unit: {EXAMPLES}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": PATTERN, "examples": ["500u", "2Mt", "3e", "10m"]}
