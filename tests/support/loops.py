"""Coroutines in tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_a_loop_of_its_own(work: Coroutine[Any, Any, None]) -> None:
    """In another thread: Playwright keeps a loop running in this one once a browser was used."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
