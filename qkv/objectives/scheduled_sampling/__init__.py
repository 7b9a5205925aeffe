"""Scheduled sampling: the decoder learns to continue from its own predictions."""

from qkv.objectives.scheduled_sampling.mixing import AnyScheduledSampling, ScheduledSampling, samplings

__all__ = ["AnyScheduledSampling", "ScheduledSampling", "samplings"]
