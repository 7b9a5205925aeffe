"""Prepares data, tokenizers and initial weights from a recipe, and gives advice before a run starts."""
