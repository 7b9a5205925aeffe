"""Layers of a recurrent model: LSTMs, and one file per kind of attention."""

from typing import Annotated

from qkv.layers.recurrent.attention import (
    AdditiveAttention,
    AdditiveAttentionConfig,
    RecurrentAttentionConfig,
    recurrent_attentions,
)
from qkv.layers.recurrent.coverage import CoverageRecurrent, CoverageRecurrentConfig
from qkv.layers.recurrent.location_aware import LocationAwareRecurrent, LocationAwareRecurrentConfig
from qkv.layers.recurrent.lstm import BidirectionalLSTM, LSTMStack

AnyRecurrentAttention = Annotated[RecurrentAttentionConfig, recurrent_attentions]

__all__ = [
    "AdditiveAttention",
    "AdditiveAttentionConfig",
    "AnyRecurrentAttention",
    "BidirectionalLSTM",
    "CoverageRecurrent",
    "CoverageRecurrentConfig",
    "LSTMStack",
    "LocationAwareRecurrent",
    "LocationAwareRecurrentConfig",
    "RecurrentAttentionConfig",
    "recurrent_attentions",
]
