"""Optimisers by `kind:`."""

from qkv.training.optimizers.adamw import AdamW, AdamWConfig
from qkv.training.optimizers.base import AnyOptimizer, Optimizer, OptimizerConfig, optimizers
from qkv.training.optimizers.muon import Muon, MuonConfig
from qkv.training.optimizers.schedule_free import ScheduleFreeAdamW, ScheduleFreeConfig

__all__ = [
    "AdamW",
    "AdamWConfig",
    "AnyOptimizer",
    "Muon",
    "MuonConfig",
    "Optimizer",
    "OptimizerConfig",
    "ScheduleFreeAdamW",
    "ScheduleFreeConfig",
    "optimizers",
]
