"""Fixtures for tests that train or start processes."""

from tests.support.fixtures import data, forks, in_memory, memory_root, scratch

__all__ = ["data", "forks", "in_memory", "memory_root", "scratch"]
