"""Layers of a recurrent model: cells, encoders, and one file per kind of attention."""

from typing import Annotated

from qkv.layers.recurrent.attention import (
    AdditiveAttention,
    AdditiveAttentionConfig,
    NoAttentionConfig,
    RecurrentAttention,
    RecurrentAttentionConfig,
    recurrent_attentions,
)
from qkv.layers.recurrent.cells import STACKS, Cells, CellStack, CellState, GRUStack, LSTMStack
from qkv.layers.recurrent.coverage import CoverageRecurrent, CoverageRecurrentConfig
from qkv.layers.recurrent.encoders import BidirectionalConfig, Encoded, RecurrentEncoderConfig, recurrent_encoders
from qkv.layers.recurrent.location_aware import LocationAwareRecurrent, LocationAwareRecurrentConfig
from qkv.layers.recurrent.lstmn import LSTMNConfig

AnyRecurrentAttention = Annotated[RecurrentAttentionConfig, recurrent_attentions]
AnyRecurrentEncoder = Annotated[RecurrentEncoderConfig, recurrent_encoders]

__all__ = [
    "STACKS",
    "AdditiveAttention",
    "AdditiveAttentionConfig",
    "AnyRecurrentAttention",
    "AnyRecurrentEncoder",
    "BidirectionalConfig",
    "CellStack",
    "CellState",
    "Cells",
    "CoverageRecurrent",
    "CoverageRecurrentConfig",
    "Encoded",
    "GRUStack",
    "LSTMNConfig",
    "LSTMStack",
    "LocationAwareRecurrent",
    "LocationAwareRecurrentConfig",
    "NoAttentionConfig",
    "RecurrentAttention",
    "RecurrentAttentionConfig",
    "RecurrentEncoderConfig",
    "recurrent_attentions",
    "recurrent_encoders",
]
