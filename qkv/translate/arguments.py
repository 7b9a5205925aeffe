"""The arguments of a `Translator`, checked as the keys of a recipe are."""

from typing import Annotated, Literal

from pydantic import Field

from qkv.config import Config
from qkv.core.devices import DeviceName
from qkv.engines.fast_engines import EngineName
from qkv.engines.torch_engine import DecodingPrecision
from qkv.search.kinds import AnySearch


class TranslatorArguments(Config):
    """How a model is used."""

    engine: EngineName
    """What runs the model."""
    search: AnySearch | None
    """The search: a config, the name of a kind, or a dict of keys; None: the model's default search."""
    workers: Annotated[int, Field(ge=1)] | Literal["auto"]
    """Processes, or threads of a fast engine."""
    batch_tokens: int | None = Field(ge=1)
    """The most source tokens of a batch."""
    max_src_tokens: int | None = Field(ge=2)
    """A longer source is split."""
    split_long: bool
    """Whether a longer source is split; otherwise it is truncated."""
    overlap: bool
    """Whether each part is read together with the preceding one."""
    device: DeviceName
    """Where the model runs."""
    precision: DecodingPrecision
    """Of weights and activations."""
    static_shapes: bool
    """Whether the tensors of a step keep their shapes."""
