"""Tokenizers with a use of their own: labels, sentinels, those of imported models."""
