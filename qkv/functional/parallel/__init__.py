"""Equations of decoders that write all positions at once."""
