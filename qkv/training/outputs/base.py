"""What validation knows of a model's outputs, and the registry by what the model is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from qkv.config import Names
from qkv.data.length_limit import LengthLimit
from qkv.data.tasks import Stream
from qkv.models.base import Model
from qkv.search.base import SearchConfig
from qkv.text import TokenizerPair

Tick = Callable[[int, int], None]
"""Called with (done, total) between batches; may raise to stop early."""


@dataclass(frozen=True)
class DevData:
    """The dev data of a run, and how its outputs are searched for."""

    stream: Stream
    tokenizers: TokenizerPair
    search: SearchConfig | None = None
    """None: the fastest one."""
    length_limit: LengthLimit | None = None


class Answer(NamedTuple):
    """What a model says, and what it should have said."""

    source: str
    output: str
    answers: list[str]
    cut: bool = False
    """The output was truncated at the length limit."""


class Outputs(Protocol):
    """Asks a model for outputs on the dev data."""

    def __len__(self) -> int:
        """The number of sources."""

    def __call__(self, model: Model, chosen: Sequence[int], tick: Tick) -> list[Answer]:
        """What the model says of these sources."""


class OutputsKind(NamedTuple):
    """How a model is asked."""

    data: tuple[str, ...]
    """The kinds of data that say what its outputs should have been."""
    build: Callable[[DevData], Outputs]


outputs = Names[OutputsKind]("outputs")
"""By what a model is asked for (`ModelConfig.asked`)."""


def spread(size: int, wanted: int | None) -> list[int]:
    """`wanted` of `size` indices, evenly spread; all of them if `wanted` is None."""
    count = size if wanted is None else min(size, wanted)
    return [index * size // count for index in range(count)]
