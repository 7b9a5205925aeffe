"""What the objectives of non-autoregressive decoders are built from, and their registry.

The file of a decoder kind's objective registers it under the name of the kind:

    objectives.register("ctc", Ctc)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from qkv.config import Config, Names
from qkv.functional.losses import Smoothing
from qkv.objectives.base import Objective
from qkv.text.special import SpecialIds


class GlancingConfig(Config):
    """Glancing training (GLAT): the second pass sees a share of the tokens that the first one got wrong."""

    start: float = Field(default=0.5, ge=0, le=1)
    """Tokens that are shown for each wrong one, at the first update."""
    end: float = Field(default=0.3, ge=0, le=1)
    """The same from update `updates` on; in between on a straight line."""
    updates: int = Field(default=10_000, ge=1)
    """See `end`."""

    def ratio_at(self, update: int) -> float:
        """`update` counts from 1."""
        done = min((update - 1) / self.updates, 1.0)
        return self.start + (self.end - self.start) * done


class MaskingConfig(Config):
    """Which tokens a masked_lm has to predict (Devlin et al. 2019)."""

    rate: float = Field(default=0.15, gt=0, lt=1)
    """The share of tokens that are chosen; of these, 80 % are masked, 10 % become random tokens and 10 % stay."""


class SpansConfig(Config):
    """Which spans a text_to_text has to predict on texts (Raffel et al. 2020)."""

    density: float = Field(default=0.15, gt=0, lt=1)
    """The share of tokens that are in spans."""
    mean_length: float = Field(default=3.0, ge=1, le=1000)
    """The mean length of a span."""
    whole: bool = False
    """Predict the whole text (BART, Lewis et al. 2020), not only what is in spans."""


@dataclass(frozen=True)
class ObjectiveParts:
    """The settings of a recipe, built for all ids of the output."""

    smoothing: Smoothing
    """For training."""
    plain: Smoothing
    """For validation: none."""
    glancing: GlancingConfig | None
    special: SpecialIds


objectives = Names[Callable[[Any, ObjectiveParts], Objective]]("objective")
"""By kind of decoder: its config and the parts -> what trains it."""
