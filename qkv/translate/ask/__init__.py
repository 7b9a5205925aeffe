"""Asks models other than those from a source to a target: for continuations, labels, vectors."""
