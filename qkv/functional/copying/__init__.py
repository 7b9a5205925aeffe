"""Copying from the source."""
