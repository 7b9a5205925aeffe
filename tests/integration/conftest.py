"""Fixtures for tests that train."""

from tests.support.fixtures import data, forks, in_memory, memory_root, scratch
from tests.support.long_outputs import long_data, long_run

__all__ = ["data", "forks", "in_memory", "long_data", "long_run", "memory_root", "scratch"]
