"""What the objectives of non-autoregressive decoders are built from."""

from dataclasses import dataclass

from pydantic import Field

from qkv.config.base import Config
from qkv.functional.losses import Smoothing
from qkv.text.special import SpecialIds


class GlancingConfig(Config):
    """Glancing training (GLAT): a first pass guesses, and of what it got wrong a share is shown to the second."""

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


@dataclass(frozen=True)
class Parts:
    """The settings of a recipe, built for all ids of the output."""

    smoothing: Smoothing
    """For training."""
    plain: Smoothing
    """For validation: none."""
    glancing: GlancingConfig | None
    special: SpecialIds
