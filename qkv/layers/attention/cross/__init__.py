"""Kinds of attention that are for cross-attention alone: they follow the output through its source."""

from qkv.layers.attention.cross.coverage import CoverageAttention, CoverageAttentionConfig
from qkv.layers.attention.cross.location_aware import LocationAwareAttention, LocationAwareConfig
from qkv.layers.attention.cross.mocha import MochaAttention, MochaConfig
from qkv.layers.attention.cross.monotonic import MonotonicAttention, MonotonicConfig
from qkv.layers.attention.cross.wait_k import WaitKAttention, WaitKConfig

__all__ = [
    "CoverageAttention",
    "CoverageAttentionConfig",
    "LocationAwareAttention",
    "LocationAwareConfig",
    "MochaAttention",
    "MochaConfig",
    "MonotonicAttention",
    "MonotonicConfig",
    "WaitKAttention",
    "WaitKConfig",
]
