"""Data-parallel training: several processes share every batch and hold the same weights.

Workers on one machine use gloo; torchrun starts them on several.

Each worker computes the gradient of its rows; gradients are summed over the workers and divided once, so the update
equals that of a single process up to rounding.
"""

import datetime
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import FileStore, PrefixStore, Store  # type: ignore[attr-defined]  # public, but not in its list of names
from torch.distributed.rendezvous import rendezvous

from qkv.core.child import child_command
from qkv.core.devices import choose_device
from qkv.core.errors import QkvError
from qkv.core.temporary import temporary_folder
from qkv.kernels.threads import cores
from qkv.training.team import LONGEST_WAIT, Team

BACKENDS = {"cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
"""By kind of device; on all others gloo sums."""


def own_device(name: str, rank: int, world: int) -> torch.device:
    """The device of this process: each of several on one machine has its own, unless `name` says which."""
    number = int(os.environ.get("LOCAL_RANK", rank)) if world > 1 else None
    device = choose_device(name, number)
    if device.index is not None:
        torch.accelerator.set_device_index(device.index)
    return device


@contextmanager
def torchrun_team(device: str, timeout: int) -> Iterator[Team | None]:
    """The team that torchrun set up, if torchrun started this process; its members compute on `device`.

    A rank that does not answer for `timeout` seconds is lost. One that has died is noticed at once, by its closed
    connection; one whose machine or network has failed is not.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield None
        return
    own, own_part = not dist.is_initialized(), None
    if own:
        kind = own_device(device, 0, int(os.environ["WORLD_SIZE"])).type
        store, rank, world = next(rendezvous("env://", timeout=LONGEST_WAIT))
        own_part = part_of_this_start(store, rank, world)
        backend = BACKENDS.get(kind, "gloo")
        patience = datetime.timedelta(seconds=timeout)
        dist.init_process_group(backend, store=own_part, rank=rank, world_size=world, timeout=patience)
    try:
        yield Team(dist.get_rank(), dist.get_world_size(), own_part)
    finally:
        if own:
            _leave()


def part_of_this_start(store: Store, rank: int, world: int) -> Store:
    """A part of torchrun's store that only the processes of this start know.

    torchrun starts all processes again when one has died, with the same store, which holds the addresses of the dead.
    So each process asks with a name of its own, and rank 0, which can only answer while it lives, names the part.
    """
    own = uuid.uuid4().hex
    if rank:
        store.set(f"qkv/ask/{store.add('qkv/asked', 1)}", own)
        part = store.get(f"qkv/answer/{own}").decode()
        store.set(f"{part}/joined/{rank}", "yes")
        return PrefixStore(part, store)
    answered: set[int] = set()
    while not store.check([f"{own}/joined/{other}" for other in range(1, world)]):
        for number in set(range(1, store.add("qkv/asked", 0) + 1)) - answered:
            if store.check([f"qkv/ask/{number}"]):
                store.set(f"qkv/answer/{store.get(f'qkv/ask/{number}').decode()}", own)
                answered.add(number)
        time.sleep(0.02)
    return PrefixStore(own, store)


def _leave() -> None:
    """Close the connections: a process that exits with open ones may be aborted by threads that still listen."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def local_team(run: Path, checkpoint: Path | None, world: int, device: str, timeout: int) -> Iterator[Team]:
    """Start `world - 1` more processes on the run; this process is rank 0."""
    if world == 1:
        yield Team()
        return
    with temporary_folder(Path(tempfile.gettempdir()) / "qkv-team", 0o700) as meeting:
        address = f"{meeting}/rendezvous"
        workers = [_start_worker(run, checkpoint, rank, world, address) for rank in range(1, world)]
        try:
            store = FileStore(address, world)
            _await(workers, store)
            yield _join(store, 0, world, _backend(device, 0, world), timeout)
        finally:
            # First: closing the connection releases a worker that waits in all_reduce.
            _leave()
            _stop(workers)


def _start_worker(run: Path, checkpoint: Path | None, rank: int, world: int, address: str) -> subprocess.Popen[bytes]:
    arguments = [str(run), str(rank), str(world), address, str(checkpoint or "")]
    command = child_command("qkv.training.worker", *arguments)
    # A separate session: Ctrl-C reaches rank 0 only, which stops the workers at the next update.
    return subprocess.Popen(command, start_new_session=True)


def _await(workers: list[subprocess.Popen[bytes]], store: FileStore) -> None:
    """Wait until all have started. Joining would block forever if one of them were dead, so it comes after this."""
    while not store.check([f"started/{rank}" for rank in range(1, len(workers) + 1)]):
        if any(worker.poll() is not None for worker in workers):
            raise QkvError(
                "a worker process ended before it could begin; resume with --resume, or set training.workers=1"
            )
        time.sleep(0.02)


@contextmanager
def join_as_worker(address: str, rank: int, world: int, device: str, timeout: int) -> Iterator[Team]:
    """In a worker process: join the others."""
    # If there is no device for this process it ends here, before the others count on it and wait.
    backend = _backend(device, rank, world)
    store = FileStore(address, world)
    store.set(f"started/{rank}", "yes")
    try:
        yield _join(store, rank, world, backend, timeout)
    finally:
        _leave()


def _backend(device: str, rank: int, world: int) -> str:
    return BACKENDS.get(own_device(device, rank, world).type, "gloo")


def _join(store: FileStore, rank: int, world: int, backend: str, timeout: int) -> Team:
    patience = datetime.timedelta(seconds=timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=patience)
    return Team(rank, world)


def _stop(workers: list[subprocess.Popen[bytes]]) -> None:
    """Give them a short time to exit by themselves."""
    deadline = time.monotonic() + 5
    for worker in workers:
        try:
            worker.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def set_threads(threads: int | None, world: int) -> None:
    """`threads` in this process; by default the cores of this machine divided among its workers."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    torch.set_num_threads(threads or max(1, cores() // here))
