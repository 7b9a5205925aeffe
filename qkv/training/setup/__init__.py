"""Prepares data, tokenizers and initial weights from a recipe, and gives advice before a run starts."""

from qkv.training.setup import pair_advice

__all__ = ["pair_advice"]
