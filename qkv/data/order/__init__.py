"""Which examples come when, and which rank computes them."""

from qkv.data.order.plan import BatchPlan, Budget, Indices, Planned, PlannedEqually, epoch_plan, permuted
from qkv.data.order.shares import balanced_share, share

__all__ = [
    "BatchPlan",
    "Budget",
    "Indices",
    "Planned",
    "PlannedEqually",
    "balanced_share",
    "epoch_plan",
    "permuted",
    "share",
]
