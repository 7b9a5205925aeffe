"""Monotonic attention, and how far behind its source it writes."""
