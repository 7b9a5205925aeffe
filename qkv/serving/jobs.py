"""What the server and its worker processes say to each other: frames of a length and a pickle.

Both ends are processes of ours, connected by pipes that nobody else can write to.
"""

import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.translate.texts import DecodeOptions, SourceText

LENGTH = struct.Struct("!I")


@dataclass(frozen=True)
class DecodeSettings:
    """How texts are decoded; those that are decoded in the same way may share a batch."""

    model: Path
    engine: str
    overrides: tuple[str, ...]
    """Settings of the search, as `key=value`."""
    options: DecodeOptions


@dataclass(frozen=True)
class BatchJob:
    """One batch for a worker."""

    number: int
    decoding: DecodeSettings
    sources: list[SourceText]


@dataclass(frozen=True)
class Cancel:
    """Stop working on this job: nobody waits for its result."""

    number: int


@dataclass(frozen=True)
class Load:
    """Load a model, so that the first request for it does not wait."""

    model: Path
    engine: str
    overrides: tuple[str, ...]


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
