"""What the server and its worker processes say to each other: frames of a length and a pickle.

Both ends are processes of ours, connected by pipes that nobody else can write to.
"""

import pickle
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv.translate.ask.vectors import Pooling
from qkv.translate.texts import DecodeOptions

LENGTH = struct.Struct("!I")


@dataclass(frozen=True)
class ModelSettings:
    """A model and how it is searched."""

    folder: Path
    engine: str
    overrides: tuple[str, ...] = ()
    """Settings of the search, as `key=value`."""


@dataclass(frozen=True)
class BatchWork:
    """What is done with each item of a batch; items with equal work may share one."""

    model: ModelSettings


@dataclass(frozen=True)
class Translate(BatchWork):
    """From a `SourceText` to a `Translation`."""

    options: DecodeOptions = field(default_factory=DecodeOptions)


@dataclass(frozen=True)
class Score(BatchWork):
    """From a list of pairs to a list of `PairScore`."""


@dataclass(frozen=True)
class Embed(BatchWork):
    """From a list of texts to a list of `EmbeddedText`."""

    pooling: Pooling = "mean"
    normalize: bool = False


@dataclass(frozen=True)
class See(BatchWork):
    """From a text to what the page of `qkv see` shows of it, as JSON."""

    name: str = "model"


@dataclass(frozen=True)
class BatchJob:
    """One batch for a worker."""

    number: int
    work: BatchWork
    items: list[Any]


@dataclass(frozen=True)
class Cancel:
    """Stop working on this job: nobody waits for its result."""

    number: int


@dataclass(frozen=True)
class Load:
    """Load models, so that the first request for one does not wait; with none, say that the process is up."""

    models: tuple[ModelSettings, ...] = ()


@dataclass(frozen=True)
class Progress:
    """What is written so far for one item of the job that is worked on."""

    place: int
    news: Any


@dataclass(frozen=True)
class Done:
    """The results of a job, one for each item."""

    results: list[Any]
    engine: str = "torch"
    """What has run the model."""
    seconds: float = 0.0
    """How long the batch took."""


@dataclass(frozen=True)
class Failed:
    """Why a job has no result."""

    message: str
    usage: bool
    """Whether the request was wrong; otherwise the worker failed."""


def frame(message: Any) -> bytes:
    """The bytes of a message."""
    content = pickle.dumps(message)
    return LENGTH.pack(len(content)) + content
