"""A small recipe with everything a configuration may hold, and a way to load one from text."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BeforeValidator, Field, model_validator

from qkv.config import Config, Kinds, Period, load_config
from qkv.core.errors import UsageError


class PositionsConfig(Config):
    pass


positions = Kinds[PositionsConfig]("positions")


@positions.register
class Learned(PositionsConfig):
    """A table of vectors."""

    kind: Literal["learned"] = "learned"
    size: int = Field(512, gt=0)
    """How many positions."""


@positions.register
class Rotary(PositionsConfig):
    kind: Literal["rotary"] = "rotary"
    base: float
    """The base | of the angles."""


AnyPositions = Annotated[PositionsConfig, positions]


class Corpus(Config):
    src: Path
    weight: float = 1.0


class Model(Config):
    num_heads: int = 8
    """Heads of each attention."""
    d_model: int = 512
    dropout: float = Field(0.1, ge=0, lt=1)
    tie: bool = True
    norm: Literal["pre", "post"] = "post"
    positions: AnyPositions = Learned()

    @model_validator(mode="after")
    def _divisible(self) -> "Model":
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple\nof num_heads {self.num_heads}")
        return self


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


class Recipe(Config):
    lang: str = "en"
    model: Model = Model()
    every: Period = Period(500, "updates")
    stop: Period | None = None
    train: Annotated[list[Corpus], BeforeValidator(_as_list)] = Field(default_factory=list)
    dev: Corpus | list[Corpus] | None = None
    extra: AnyPositions | list[AnyPositions] | None = None
    workers: Annotated[int, Field(gt=2)] | Literal["auto"] = "auto"
    counts: dict[str, int] = Field(default_factory=dict)
    betas: tuple[float, float] = (0.9, 0.98)


@pytest.fixture
def recipe_class() -> type[Recipe]:
    return Recipe


@pytest.fixture
def positions_kinds() -> Kinds[PositionsConfig]:
    return positions


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recipe]:
    """`load(text, *overrides)`: the recipe from a file called recipe.yaml."""
    monkeypatch.chdir(tmp_path)

    def load_text(text: str, *overrides: str) -> Recipe:
        Path("recipe.yaml").write_text(text, encoding="utf-8")
        return load_config(Recipe, Path("recipe.yaml"), overrides)

    return load_text


@pytest.fixture
def complaint(load: Callable[..., Recipe]) -> Callable[..., list[str]]:
    """`complaint(text, *overrides)`: the lines of the error that loading gives."""

    def lines(text: str, *overrides: str) -> list[str]:
        with pytest.raises(UsageError) as caught:
            load(text, *overrides)
        return str(caught.value).split("\n")

    return lines
