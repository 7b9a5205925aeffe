"""Output heads: one file per kind."""

from typing import Annotated

from qkv.models.heads import copynet, linear, pointer_generator
from qkv.models.heads.base import NO_CONTEXT, Head, HeadConfig, HeadContext, heads

AnyHead = Annotated[HeadConfig, heads]

__all__ = [
    "NO_CONTEXT",
    "AnyHead",
    "Head",
    "HeadConfig",
    "HeadContext",
    "copynet",
    "heads",
    "linear",
    "pointer_generator",
]
