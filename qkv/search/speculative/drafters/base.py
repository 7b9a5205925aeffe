"""Drafters propose the next tokens; the model verifies them, so a wrong draft costs only time.

A new kind of drafter is a new file here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.models.saved.folder import SavedModel


@dataclass(frozen=True)
class DraftSources:
    """The sentences of a batch, as encoded by the model."""

    src: Tensor
    """[B, S], each row ends with END."""
    src_keep: Tensor
    memory: Tensor
    """[B, S, M], the encoder's output."""

    def ids(self) -> list[list[int]]:
        """The tokens of each source, without END."""
        return [row[keep].tolist()[:-1] for row, keep in zip(self.src, self.src_keep, strict=True)]


@dataclass(frozen=True)
class Checked:
    """The verification of the drafts of some sentences."""

    sentences: Sequence[int]
    """Their indices."""
    said: Sequence[Sequence[int]]
    """For each, the most probable token after the kept ones, and after each token of the draft."""
    accepted: Sequence[int]
    """For each, the number of accepted draft tokens; said[accepted] is the token that follows them."""
    decoded: Tensor
    """[R, W, D], the decoder states of `said`."""


class Drafts(Protocol):
    """The drafts for one batch of sentences, which are referred to by index."""

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        """At most `count` tokens to follow `kept`; tokens after END are ignored."""

    def learn(self, checked: Checked) -> None:
        """Called after each pass."""


class Drafter(Protocol):
    """Made by a config's `build`, for one model."""

    def begin(self, sources: DraftSources) -> Drafts:
        """Read the sentences of a batch."""


BlockLength = Annotated[int, Field(ge=1)]


class DrafterConfig(Config):
    """The kind of drafter, and the maximum length of a draft."""

    block: BlockLength = 8
    """Maximum number of tokens of a draft."""
    adaptive: bool = True
    """Shorten drafts where few tokens are accepted, and stop drafting where it does not pay."""

    def build(self, saved: SavedModel) -> Drafter:
        """For the model that verifies; raises UsageError if this kind does not support it."""
        raise NotImplementedError


drafters = Kinds[DrafterConfig]("drafter")
