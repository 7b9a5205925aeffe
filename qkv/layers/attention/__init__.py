"""Attention: one file per kind."""

from typing import Annotated

from qkv.layers.attention.base import Attention, AttentionConfig, ForInference, KeyValue, attentions
from qkv.layers.attention.causal import CausalAttention, CausalConfig
from qkv.layers.attention.cross import (
    CoverageAttention,
    CoverageAttentionConfig,
    LocationAwareAttention,
    LocationAwareConfig,
    MochaAttention,
    MochaConfig,
    MonotonicAttention,
    MonotonicConfig,
    WaitKAttention,
    WaitKConfig,
)
from qkv.layers.attention.longformer import LongformerAttention, LongformerConfig
from qkv.layers.attention.lsh import LshAttention, LshConfig
from qkv.layers.attention.multi_head import FullConfig, MultiHeadAttention
from qkv.layers.attention.truncated import TruncatedAttention, TruncatedConfig

AnyAttention = Annotated[AttentionConfig, attentions]

__all__ = [
    "AnyAttention",
    "Attention",
    "AttentionConfig",
    "CausalAttention",
    "CausalConfig",
    "CoverageAttention",
    "CoverageAttentionConfig",
    "ForInference",
    "FullConfig",
    "KeyValue",
    "LocationAwareAttention",
    "LocationAwareConfig",
    "LongformerAttention",
    "LongformerConfig",
    "LshAttention",
    "LshConfig",
    "MochaAttention",
    "MochaConfig",
    "MonotonicAttention",
    "MonotonicConfig",
    "MultiHeadAttention",
    "TruncatedAttention",
    "TruncatedConfig",
    "WaitKAttention",
    "WaitKConfig",
    "attentions",
]
