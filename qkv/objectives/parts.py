"""What every objective of a non-autoregressive decoder is made of."""

from dataclasses import dataclass

from qkv.functional.smoothing import Smoothing
from qkv.objectives.glancing import GlancingConfig
from qkv.text.special import SpecialIds


@dataclass(frozen=True)
class Parts:
    """The settings of a recipe, built for all ids of the output."""

    smoothing: Smoothing
    """For training."""
    plain: Smoothing
    """For validation: none."""
    glancing: GlancingConfig | None
    special: SpecialIds
