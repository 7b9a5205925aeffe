"""One driver at a time: who drives a job stands in DIR/driver.json, and only its actors commit.

A driver renews that file every few seconds. Another one that finds it waits until it is certain that nobody renews it
any more (on the same machine it asks whether the process is there), and then takes the job over. Clocks are not
compared. An actor that still works for the former driver finds another name there and commits nothing.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qkv.core.errors import QkvError, UsageError
from qkv.translate.cluster.storage import Location

DRIVER = "driver.json"
RENEWED_EVERY = 5.0
GIVEN_UP_AFTER = 6
"""Times that the file was not renewed before its driver counts as dead."""
SETTLED = 0.5
"""Seconds after which two drivers that start at once both see which of them wrote last."""

Pause = Callable[[float], None]


@contextmanager
def driving(folder: Location, say: Callable[[str], None], pause: Pause = time.sleep) -> Iterator[str]:
    """Context in which this process alone drives the job in a folder, under the name that is yielded.

    Raises UsageError if another process does so.
    """
    place, driver = folder.below(DRIVER), uuid.uuid4().hex
    _wait_for_the_former(folder, place, say, pause)
    folder.create_folder()
    _sign(place, driver, 0)
    pause(SETTLED)
    if (holder := _read(place)) is not None and holder.get("driver") != driver:
        raise _taken(folder, holder)
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(place, driver, ended), daemon=True)
    thread.start()
    try:
        yield driver
    finally:
        ended.set()
        thread.join()
        if _is_driven_by(place, driver):
            # What cannot be deleted now runs out by itself.
            with suppress(QkvError):
                folder.delete(DRIVER)


def require_driver(folder: Location, driver: str) -> None:
    """Raises QkvError if the job in the folder has another driver by now."""
    if not _is_driven_by(folder.below(DRIVER), driver):
        raise QkvError(f"{folder.name}: another driver has taken this job over; nothing more is written by this one")


def _wait_for_the_former(folder: Location, place: Location, say: Callable[[str], None], pause: Pause) -> None:
    """Return when nobody drives the job; raises UsageError if somebody does."""
    holder = _read(place)
    if holder is None or _has_ended(holder):
        return
    if holder.get("host") == socket.gethostname():
        raise _taken(folder, holder)
    seconds = RENEWED_EVERY * GIVEN_UP_AFTER
    say(f"{folder.name}: was driven from {holder.get('host')}; waiting {seconds:.0f} seconds whether it still is")
    for _ in range(GIVEN_UP_AFTER):
        pause(RENEWED_EVERY)
        now = _read(place)
        if now is None:
            return
        if now != holder:
            raise _taken(folder, now)


def _renew(place: Location, driver: str, ended: threading.Event) -> None:
    renewals = 0
    while not ended.wait(RENEWED_EVERY):
        renewals += 1
        # A storage that fails for a moment is tried again; the actors notice one that has failed for good.
        with suppress(QkvError):
            if not _is_driven_by(place, driver):
                return
            _sign(place, driver, renewals)


def _sign(place: Location, driver: str, renewals: int) -> None:
    about = {"driver": driver, "host": socket.gethostname(), "process": os.getpid(), "started": _start(os.getpid())}
    place.write(json.dumps({**about, "renewals": renewals}).encode() + b"\n")


def _is_driven_by(place: Location, driver: str) -> bool:
    holder = _read(place)
    return holder is not None and holder.get("driver") == driver


def _read(place: Location) -> dict[str, Any] | None:
    content = place.read()
    try:
        found = json.loads(content) if content else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _has_ended(holder: dict[str, Any]) -> bool:
    """Whether it was a process of this machine that is not there any more."""
    if holder.get("host") != socket.gethostname() or not isinstance(holder.get("process"), int):
        return False
    return _start(holder["process"]) != holder.get("started")


def _start(process: int) -> str | None:
    """When a process of this machine was started; None: it has ended."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else rest[18]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:  # a system without /proc tells only whether the number is in use
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"


def _taken(folder: Location, holder: dict[str, Any]) -> UsageError:
    return UsageError(
        f"{folder.name}: process {holder.get('process')} on {holder.get('host')} drives this job already; wait for it, "
        "stop it, or choose another folder"
    )
