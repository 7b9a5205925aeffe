"""The base class and registries."""

from typing import Annotated, Any, Literal

import pytest

from qkv.config import Config, Kinds
from qkv.core.errors import ConfigError


class Shape(Config):
    pass


def _shapes() -> Kinds[Shape]:
    shapes = Kinds[Shape]("shape")

    @shapes.register
    class Circle(Shape):
        kind: Literal["circle"] = "circle"
        radius: float = 1.0

    return shapes


def test_a_kind_is_a_word_a_mapping_or_a_config() -> None:
    shapes = _shapes()
    drawing = type("Drawing", (Config,), {"__annotations__": {"shape": Annotated[Shape, shapes]}})
    built = [drawing(shape=given) for given in ["circle", {"kind": "circle"}, shapes["circle"]()]]
    assert built[0] == built[1] == built[2]
    assert [config.__name__ for config in shapes] == ["Circle"]


def test_without_a_kind_the_default_kind_is_meant() -> None:
    shapes = _shapes()

    @shapes.register
    class Square(Shape):
        kind: Literal["square"] = "square"
        side: float = 2.0
        colour: str = "red"

    class Drawing(Config):
        shape: Annotated[Shape, shapes] = Square(side=3)
        frame: Annotated[Shape, shapes] | None = None

    assert Drawing(shape={"side": 5}).shape == Square(side=5)
    # Only its kind: what else the default sets is not mixed with what is given.
    assert Drawing(shape={"colour": "blue"}).shape == Square(side=2, colour="blue")
    with pytest.raises(ConfigError):
        Drawing(shape={"radius": 5})
    with pytest.raises(ConfigError):
        Drawing(frame={"side": 5})


def test_a_kind_registered_late_is_seen_by_classes_built_before() -> None:
    shapes = _shapes()
    inner = type("Inner", (Config,), {"__annotations__": {"shape": Annotated[Shape, shapes]}})
    outer = type("Outer", (Config,), {"__annotations__": {"inner": inner}})
    with pytest.raises(ConfigError):
        outer(inner={"shape": "square"})

    @shapes.register
    class Square(Shape):
        kind: Literal["square"] = "square"

    made: Any = outer(inner={"shape": "square"})
    assert made.inner.shape == Square()


def test_a_kind_cannot_be_registered_twice() -> None:
    shapes = _shapes()
    with pytest.raises(ValueError, match="shape: kind 'circle' is registered twice"):
        shapes.register(shapes["circle"])


def test_an_empty_registry_says_so() -> None:
    with pytest.raises(TypeError, match="shape: no kind is registered"):
        type("Drawing", (Config,), {"__annotations__": {"shape": Annotated[Shape, Kinds[Shape]("shape")]}})


class Scalars(Config):
    whole: int = 1
    number: float | None = 1.0
    truth: bool = True
    either: int | str = 1
    choice: Literal[1, 2] = 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"whole": True},
        {"whole": "1"},
        {"number": False},
        {"number": "1"},
        {"truth": "no"},
        {"truth": 1},
        {"choice": True},
    ],
)
def test_nothing_is_guessed(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Scalars(**wrong)


def test_what_is_meant_is_accepted() -> None:
    scalars = Scalars.model_validate({"whole": 1e4, "number": 2, "truth": False, "either": "x", "choice": 2})
    assert (scalars.whole, scalars.number, scalars.either) == (10000, 2.0, "x")
    assert type(scalars.whole) is int
    assert Scalars(number=None).number is None


def test_a_config_is_frozen_and_knows_its_docstrings() -> None:
    class Documented(Config):
        key: int = 1
        """What it is."""

    assert Documented.model_fields["key"].description == "What it is."
    with pytest.raises(ConfigError):
        Documented().key = 2
