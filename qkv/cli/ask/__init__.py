"""Verbs that ask models other than those from a source to a target."""
