"""Layer schedules: one file per kind."""

from typing import Annotated

from qkv.models.transformer.stacks import adaptive, layers, reversible, universal
from qkv.models.transformer.stacks.base import LayerSchedule, StackConfig, stacks

AnyStack = Annotated[StackConfig, stacks]

__all__ = ["AnyStack", "LayerSchedule", "StackConfig", "adaptive", "layers", "reversible", "stacks", "universal"]
