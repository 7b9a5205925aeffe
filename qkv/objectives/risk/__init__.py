"""Minimum-risk training: what is minimised is the expected cost of the model's own outputs."""

from qkv.objectives.risk.minimum_risk import AnyRisk, MinimumRisk, risks

__all__ = ["AnyRisk", "MinimumRisk", "risks"]
