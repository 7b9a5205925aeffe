"""Fixtures of the tests that train; a conftest.py imports those that it wants."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forks import Forks
from tests.support.tiny import write_data


@pytest.fixture(scope="session")
def memory_root() -> Iterator[Path]:
    """A folder where syncing costs nothing, if the machine has one."""
    shared_memory = Path("/dev/shm")
    parent = shared_memory if os.access(shared_memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="qkv-test-", dir=parent))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def in_memory(memory_root: Path) -> Path:
    """A new folder in it for one module.

    Where pytest-xdist moves tests between its workers, a worker may come back to a module that it has left, and set its
    fixtures up once more: they must not find what they wrote the first time.
    """
    return Path(tempfile.mkdtemp(dir=memory_root))


@pytest.fixture
def scratch(in_memory: Path) -> Path:
    """A new folder for one test."""
    return Path(tempfile.mkdtemp(dir=in_memory))


@pytest.fixture(scope="session")
def data(memory_root: Path) -> Path:
    """The tiny corpus."""
    return write_data(memory_root / "data")


@pytest.fixture(scope="session")
def forks(memory_root: Path) -> Iterator[Forks]:
    """Processes that start quickly."""
    folder = memory_root / "forks"
    folder.mkdir()
    parent = Forks(folder)
    yield parent
    parent.close()
