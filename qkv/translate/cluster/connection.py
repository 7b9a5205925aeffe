"""The Ray cluster that `--on` names: joined for as long as a job runs.

ray          the cluster of RAY_ADDRESS, which Ray sets for its own jobs; without it, a new one on this machine
HOST:PORT    the cluster whose head node listens there, as in `ray start --address=HOST:PORT`; this machine is one of
             its nodes

ray://HOST:PORT is the address of Ray's client, for a driver outside of the cluster. Ray Data does not run through it
(it streams, which the client does not), so it is refused.
"""

import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from qkv.core.errors import QkvError, UsageError
from qkv.kernels.threads import cores

CLIENT = "ray://"
HEAD_PORT = 6379
"""Where the head node of a cluster listens, if nothing else was said."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
PATIENCE = 5.0
"""Seconds to wait for the head node to answer."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined."""

    actors: int
    """How many actors a job starts at most: one for each core of the cluster, or as many as were asked for."""
    gpus: int = 0
    """The same for a job whose actors have a GPU each."""


@contextmanager
def connected(on: str, workers: int | None = None) -> Iterator[Cluster]:
    """Join the cluster that `on` names and leave it at the end; one that this process had joined before stays so."""
    require_ray(on)
    import ray

    if ray.is_initialized():
        yield _cluster(ray, on, workers)
        return
    # Ray collects usage statistics by default; a job of qkv sends none.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray Data makes Ray's own processes log errors that mean nothing to the user.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Ray prints what happens to actors and nodes, also to standard output, which is for results.
    with redirect_stdout(sys.stderr):
        try:
            _join(ray, head_address(on))
            yield _cluster(ray, on, workers)
        finally:
            ray.shutdown()


def require_ray(on: str) -> None:
    """Say at once what is wrong with `--on`: its form, Ray is not installed, or nothing answers at the address."""
    address = head_address(on)
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--on ray: Ray is not installed; install it with: pip install 'qkv[ray]'")
    if address is not None:
        _require_answer(on, address)


def head_address(on: str) -> str | None:
    """HOST:PORT of the head node; None: a new cluster on this machine.

    Ray's own search for a cluster is not used: it may find one that has ended, and then waits for minutes.
    """
    address, where = on, f"--on {on}"
    if on == "ray":
        address = os.environ.get("RAY_ADDRESS", "")
        where = f"RAY_ADDRESS={address}"
        if not address:
            return None
    if address.startswith(CLIENT):
        host = address.removeprefix(CLIENT).rpartition(":")[0] or "HOST"
        raise UsageError(
            f"{where}: is an address of Ray's client, through which Ray Data does not run; run the command on a node "
            f"of the cluster with --on {host}:{HEAD_PORT}, the port of the head node, or submit it with ray job submit"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{where}: must be ray, or HOST:PORT, the address of the head node (port {HEAD_PORT})")
    return address


def _require_answer(on: str, address: str) -> None:
    """Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise QkvError(
            f"--on {on}: nothing answers there ({error.strerror or error}); is Ray's head node running?"
        ) from error


def _join(ray: Any, address: str | None) -> None:
    where = {"address": "local", "num_cpus": cores(), "include_dashboard": False}
    try:
        ray.init(**(where if address is None else {"address": address}), **QUIET)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise QkvError(f"--on {address or 'ray'}: this machine cannot join that cluster: {reason}") from error


def _cluster(ray: Any, on: str, workers: int | None) -> Cluster:
    there, gpus = (int(ray.cluster_resources().get(name, 0)) for name in ("CPU", "GPU"))
    if not there:
        raise QkvError(f"--on {on}: the cluster has no cores for actors; add a node to it (ray start --address)")
    return Cluster(min(workers or there, there), min(workers or gpus, gpus))
