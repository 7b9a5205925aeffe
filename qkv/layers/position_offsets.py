"""Random positions in training, so that the positions of longer inputs are not unseen at inference.

Positions are drawn once per pair and pass, for both sides and all layers, so that token i of the source and token i
of the target share a position, as at inference. Evaluation and decoding use 0, 1, 2, ...
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.functional.positions import randomised_positions, shifted_positions

Draw = Callable[[int, int], Tensor]
"""(sentences, length) -> positions [B, T]"""


class OffsetsConfig(Config):
    """The position ids of the tokens of a sentence in training."""

    keeps_distances: ClassVar[bool] = True
    """Whether distances stay the same, so that relative schemes are unaffected."""

    def problem(self, longest: int, limit: int | None) -> str | None:
        """Why sentences of up to `longest` tokens cannot be trained with `limit` positions; None: they can."""
        return None

    def build(self) -> Draw | None:
        raise NotImplementedError


offsets = Kinds[OffsetsConfig]("position offsets")


@offsets.register
class NoOffsetsConfig(OffsetsConfig):
    """0, 1, 2, ... in training too."""

    kind: Literal["none"] = "none"

    def build(self) -> None:
        return None


@offsets.register
class ShiftConfig(OffsetsConfig):
    """Each sentence starts at a random position (Kiyono et al. 2021)."""

    kind: Literal["shift"] = "shift"
    most: int = Field(default=500, ge=1)
    """The first position is drawn uniformly from 0 ... most."""

    def problem(self, longest: int, limit: int | None) -> str | None:
        if limit is None or longest + self.most <= limit:
            return None
        return (
            f"model.position_offsets.most ({self.most}) and sentences of {longest} tokens need "
            f"model.positions.max_length {longest + self.most}, not {limit}; raise it, or lower one of the others"
        )

    def build(self) -> Draw:
        return partial(shifted_positions, most=self.most)


@offsets.register
class RandomisedConfig(OffsetsConfig):
    """The tokens of a sentence have random positions in rising order (Ruoss et al. 2023)."""

    kind: Literal["randomised"] = "randomised"
    keeps_distances = False
    renamed: ClassVar = {"room": "max_positions"}
    max_positions: int = Field(default=2048, ge=1)
    """Positions are drawn from 0 ... max_positions - 1; at least as many as the longest input at inference."""

    def problem(self, longest: int, limit: int | None) -> str | None:
        if self.max_positions < longest:
            return (
                f"model.position_offsets.max_positions ({self.max_positions}) is below data.max_src_tokens or "
                f"max_tgt_tokens ({longest}); raise the one or lower the other"
            )
        if limit is not None and limit < self.max_positions:
            return (
                f"model.position_offsets.max_positions ({self.max_positions}) is above model.positions.max_length "
                f"({limit}); lower the one or raise the other"
            )
        return None

    def build(self) -> Draw:
        return partial(randomised_positions, max_positions=self.max_positions)


AnyOffsets = Annotated[OffsetsConfig, offsets]
