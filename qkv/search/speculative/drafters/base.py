"""Who guesses what follows. A guess costs nothing but time when it is wrong: the model itself decides.

A new way to guess is a new file here.
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
    """The sentences of a batch, as the model has read them."""

    src: Tensor
    """[B, S], each row ends with END."""
    src_keep: Tensor
    memory: Tensor
    """[B, S, M], what its encoder made of them."""

    def ids(self) -> list[list[int]]:
        """The tokens of each source, END not among them."""
        return [row[keep].tolist()[:-1] for row, keep in zip(self.src, self.src_keep, strict=True)]


@dataclass(frozen=True)
class Checked:
    """What a pass has said about the drafts of some sentences."""

    sentences: Sequence[int]
    """Which ones they are."""
    said: Sequence[Sequence[int]]
    """Of each the most probable token after what was kept, and after each token of the draft as if that were right."""
    accepted: Sequence[int]
    """Of each how many tokens of its draft were right; said[accepted] is the first token that follows them."""
    decoded: Tensor
    """[R, W, D], the vectors behind `said`."""


class Drafts(Protocol):
    """The guesses for one batch of sentences, which are named by their numbers in it."""

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        """At most `count` tokens that may follow `kept`; END may be among them, and nothing after it counts."""

    def learn(self, checked: Checked) -> None:
        """Told after each pass."""


class Drafter(Protocol):
    """Made by a config's `build`, for one model."""

    def begin(self, sources: DraftSources) -> Drafts:
        """Look at the sentences of a batch."""


BlockLength = Annotated[int, Field(ge=1)]


class DrafterConfig(Config):
    """What drafts, and how long a draft may be."""

    block: BlockLength = 8
    """The most tokens of a draft."""
    adaptive: bool = True
    """Drafts become shorter where few of their tokens are right, and stop where they do not pay."""

    def build(self, saved: SavedModel) -> Drafter:
        """For the model that verifies; raises UsageError if this kind does not go with it."""
        raise NotImplementedError


drafters = Kinds[DrafterConfig]("drafter")
