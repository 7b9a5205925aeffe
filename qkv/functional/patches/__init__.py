"""Patches: how an image or a series becomes a sequence of vectors that a Transformer can read."""
