"""Texts in, translations out."""
