"""Encoder, decoder and the whole sequence-to-sequence model, its presets and its folder on disk."""
