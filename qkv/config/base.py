"""The base class of every configuration, and unions chosen by `kind:`.

Each component's config is defined in the component's file, above the class it builds. Another kind is a new file and
one registration:

    class PositionsConfig(Config): ...
    positions = Kinds[PositionsConfig]("positions")

    @positions.register
    class Learned(PositionsConfig):
        kind: Literal["learned"] = "learned"

    AnyPositions = Annotated[PositionsConfig, positions]      # the type of a field
"""

import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from annotated_types import Le, Lt
from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema, from_json

from qkv.core.errors import ArgumentError, ConfigError
from qkv.core.plugins import load_installed

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    # pydantic has no public name for it.
    ModelMetaclass = type(BaseModel)

WRONG_SCALAR = "wrong_scalar"
WRITTEN_BY_QKV = "written by qkv"
"""The validation context of a file that qkv wrote itself: nobody is warned of old keys in it."""
LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 1e9
"""The largest magnitude of a number whose field sets no bound: libraries use 32-bit integers, and the product of two
settings must be finite in float32."""


class _Explained(ModelMetaclass):
    """Gives a config that is built in code the same error messages as one that is read from a file.

    A metaclass does this because pydantic builds nested configs without calling their class: the outermost config
    reports all problems, each with the full path to its key.
    """

    if not TYPE_CHECKING:  # the signatures of the configs are those of their fields

        def __call__(cls, *values: Any, **keys: Any) -> Any:
            if values:
                raise ArgumentError(f"{cls.__name__} takes its keys by name: {cls.__name__}(key=value, ...)")
            return _checked(cls, keys, lambda: super(_Explained, cls).__call__(**keys))


def _checked(cls: Any, data: Any, build: Callable[[], Any]) -> Any:
    """What `build` makes of `data`. A kind that is unknown may be that of an installed package."""
    try:
        return build()
    except ValidationError as error:
        problem = error
    if any(item["type"] == "union_tag_invalid" for item in problem.errors(include_url=False)):
        load_installed()
        try:
            return build()
        except ValidationError as error:
            problem = error
    raise _refusal(cls, data, problem)


def _refusal(cls: Any, data: Any, error: ValidationError) -> ConfigError:
    from qkv.config.explain import dotted, explain, refusal  # which needs this file

    name = cls.__name__
    return refusal(explain(cls, data, error), lambda problem: f"{name}: {dotted(problem.loc)}" if problem.loc else name)


def _from_json(text: Any) -> Any:
    """The parsed text, for messages; None if it is not JSON."""
    try:
        return from_json(text)
    except (ValueError, TypeError):
        return None


class Config(BaseModel, metaclass=_Explained):
    """Typed and frozen; an unknown key is an error. A field's docstring is its description.

    Invalid values raise `ConfigError`, a `ValueError`, never pydantic's own error.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        validate_default=True,
    )

    renamed: ClassVar[Mapping[str, str]] = {}
    """Old names of keys and what they are called now: an old name is accepted, with a warning."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {}
    """Keys of the config that `Kinds.example` gives: those that have no default, and small values of others."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        _classes.append(weakref.ref(cls))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some keys changed, checked as a new config is."""
        if not isinstance(update, Mapping | None):
            raise ArgumentError(f"update: must be a dict of keys and values, not {type(update).__name__}")
        return type(self)(**{**dict(self), **update}) if update else super().model_copy(deep=deep)

    if not TYPE_CHECKING:  # a checker knows from `frozen` that no key can be set

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            """`obj`, a dict for example, as a config."""
            return _checked(cls, obj, lambda: super(Config, cls).model_validate(obj, **options))

        @classmethod
        def model_validate_json(cls, json_data: Any, **options: Any) -> Self:
            """JSON text as a config."""
            return _checked(
                cls, _from_json(json_data), lambda: super(Config, cls).model_validate_json(json_data, **options)
            )

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            raise ConfigError(f"{type(self).__name__}.{name}: a config does not change; {_COPY.format(name)}")

        def __delattr__(self, name: str) -> NoReturn:
            raise ConfigError(f"{type(self).__name__}.{name}: a config does not change; {_COPY.format(name)}")

    @model_validator(mode="before")
    @classmethod
    def _rename_keys(cls, data: Any, info: ValidationInfo) -> Any:
        old = [key for key in cls.renamed if key in data] if isinstance(data, dict) else []
        for key in old:
            if cls.renamed[key] in data:
                raise ValueError(f"{key} is the old name of {cls.renamed[key]}; give only one of the two")
            if info.context != WRITTEN_BY_QKV:
                # Always from this line, so that Python shows it once however many callers there are.
                warnings.warn(f"the key {key} is now called {cls.renamed[key]}", FutureWarning, stacklevel=1)
        return {cls.renamed.get(key, key): value for key, value in data.items()} if old else data

    @field_validator("*", mode="before")
    @classmethod
    def _no_guessing(cls, value: Any, info: ValidationInfo) -> Any:
        """`true` is not the number 1, and the text "no" is not false; `1e4` is the whole number 10000, though."""
        if isinstance(value, str | int) and info.field_name is not None:
            accepted = _scalars(cls.model_fields[info.field_name].annotation)
            numbers_and_truth = bool(accepted) and accepted <= {int, float, bool}
            if numbers_and_truth and not _is_one_of(value, accepted):
                raise PydanticCustomError(WRONG_SCALAR, "is not of the type of this key")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _no_giants(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject a number that is too large to compute with, where its field sets no bound."""
        if info.field_name is not None and not _has_largest(cls.model_fields[info.field_name].metadata):
            for number in value if isinstance(value, tuple | list) else (value,):
                _refuse_giant(number)
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _default_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """A group without `kind` has the kind of the default, so a single key of it can be set."""
        if isinstance(value, dict) and "kind" not in value and info.field_name is not None:
            default = cls.model_fields[info.field_name].default
            if isinstance(default, Config) and "kind" in type(default).model_fields:
                return {"kind": type(default).model_fields["kind"].default, **value}
        return value


_COPY = 'make another one: config.model_copy(update={{"{}": ...}})'

_classes: list["weakref.ref[type[Config]]"] = []  # in the order of definition: what is inside comes first


class ExtensibleConfig(Config):
    """A file whose kinds may come from other packages."""

    asks: ClassVar[bool] = False
    """Whether the user must allow `imports`, because the file may come from someone else."""

    imports: list[str] = []
    """Modules that register kinds of their own; they are imported before the rest is read."""


def _has_largest(metadata: list[Any]) -> bool:
    return any(isinstance(each, Le | Lt) for each in metadata)


def _refuse_giant(number: Any) -> None:
    if isinstance(number, int | float) and not isinstance(number, bool):
        largest = LARGEST_INT if isinstance(number, int) else LARGEST_FLOAT
        if number > largest:
            raise PydanticKnownError("less_than_equal", {"le": largest})
        if number < -largest:
            raise PydanticKnownError("greater_than_equal", {"ge": -largest})


def _scalars(annotation: Any) -> set[Any]:
    """The types in an annotation such as `Annotated[int, ...] | None`, without None."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _scalars(args[0])
    if origin in (Union, types.UnionType):
        return set[Any]().union(*map(_scalars, args))
    if origin is Literal:
        return {type(arg) for arg in args}
    return set() if annotation in (None, types.NoneType) else {annotation}


def _is_one_of(value: str | int, accepted: set[Any]) -> bool:
    if isinstance(value, bool):
        return bool in accepted
    return isinstance(value, int) and bool(accepted & {int, float})


C = TypeVar("C", bound=Config)
T = TypeVar("T", bound=Config)


class Kinds(Generic[C]):
    """The registered kinds of one component; as metadata of `Annotated` it makes a field a union by `kind`.

    Examples:
        >>> from qkv import attentions
        >>> "full" in attentions.names(), attentions["full"].__name__
        (True, 'FullConfig')
    """

    def __init__(self, name: str, default: str | None = None) -> None:
        self.name = name
        self.default = default
        """The kind of a group that names none."""
        self._configs: dict[str, type[C]] = {}
        self._used = False

    def register(self, config: type[T]) -> type[T]:
        """Decorator for a config class with a field `kind: Literal["..."] = "..."`; works at any time."""
        kind = config.model_fields["kind"].default
        if kind in self._configs:
            raise ValueError(f"{self.name}: kind {kind!r} is registered twice")
        self._configs[kind] = cast(type[C], config)
        if self._used:
            _rebuild()
        return config

    def __iter__(self) -> Iterator[type[C]]:
        return iter(self._configs.values())

    def __getitem__(self, kind: str) -> type[C]:
        if kind not in self._configs:
            load_installed()
        return self._configs[kind]

    def names(self) -> list[str]:
        return list(self._configs)

    def example(self, kind: str) -> C:
        """A small valid config of `kind`, by which tests try every kind that is registered."""
        config = self[kind]
        return config(**config.EXAMPLE)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not self._configs:
            raise TypeError(f"{self.name}: no kind is registered; import the files of the kinds before this field")
        self._used = True
        choices = {kind: handler.generate_schema(config) for kind, config in self._configs.items()}
        union = core_schema.tagged_union_schema(choices, discriminator="kind")
        return core_schema.no_info_before_validator_function(self._with_kind, union)

    def _with_kind(self, value: Any) -> Any:
        """`positions: learned` is short for `positions: {kind: learned}`."""
        if isinstance(value, str):
            return {"kind": value}
        if self.default is not None and isinstance(value, dict) and "kind" not in value:
            return {"kind": self.default, **value}
        return value

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The union, or a bare word for a kind that needs nothing more."""
        words = [kind for kind in self._configs if not any(f.is_required() for f in self[kind].model_fields.values())]
        union = handler(core)
        return {"anyOf": [union, {"enum": words}]} if words else union


def _rebuild() -> None:
    """Rebuild the classes that were built before the new kind was registered."""
    for config in filter(None, (reference() for reference in _classes)):
        if config.__pydantic_complete__:
            config.model_rebuild(force=True)
