"""Fixtures for tests that start processes."""

from tests.support.fixtures import forks, in_memory

__all__ = ["forks", "in_memory"]
