"""Several processes that share every batch and hold the same weights: gloo on one machine, torchrun on many.

Each worker computes the gradient of its rows; the sums are added over the workers and divided once, so
the update is the same as with one process, but for the rounding of the sums.
"""

import datetime
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import FileStore  # type: ignore[attr-defined]  # public, but not in its list of names

from qkv.core.child import child_command
from qkv.core.errors import QkvError, TeamBroken
from qkv.core.temporary import temporary_folder
from qkv.kernels.threads import cores

LONGEST_WAIT = datetime.timedelta(hours=12)
"""Other workers wait while the first one validates; a dead one is noticed at once by its closed connection."""


@dataclass(frozen=True)
class Team:
    """This process among the workers."""

    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Only the leader writes, prints and validates."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace `tensor` by its sum over the workers."""
        if self.world == 1:
            return
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            raise TeamBroken(
                "a worker process ended unexpectedly; the last checkpoint is good, go on with --resume"
            ) from error

    def barrier(self) -> None:
        """Wait until every worker has come here."""
        self.all_reduce(torch.zeros(1))


@contextmanager
def torchrun_team() -> Iterator[Team | None]:
    """The team that torchrun set up, if this process was started by it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield None
        return
    own = not dist.is_initialized()
    if own:
        dist.init_process_group("gloo", timeout=LONGEST_WAIT)
    try:
        yield Team(dist.get_rank(), dist.get_world_size())
    finally:
        if own:
            _leave()


def _leave() -> None:
    """Close the connections. A process that ends with open ones may be aborted by threads that still listen."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def local_team(run: Path, checkpoint: Path | None, world: int) -> Iterator[Team]:
    """Start `world - 1` more processes on the run and be their leader."""
    if world == 1:
        yield Team()
        return
    with temporary_folder(Path(tempfile.gettempdir()) / "qkv-team", 0o700) as meeting:
        address = f"{meeting}/rendezvous"
        workers = [_start_worker(run, checkpoint, rank, world, address) for rank in range(1, world)]
        try:
            store = FileStore(address, world)
            _await(workers, store)
            yield _join(store, 0, world)
        finally:
            # First: a worker that waits for a sum is freed by the closed connection.
            _leave()
            _stop(workers)


def _start_worker(run: Path, checkpoint: Path | None, rank: int, world: int, address: str) -> subprocess.Popen[bytes]:
    arguments = [str(run), str(rank), str(world), address, str(checkpoint or "")]
    command = child_command("qkv.training.worker", *arguments)
    # A session of its own: Ctrl-C reaches the leader only, which tells the workers at the next update.
    return subprocess.Popen(command, start_new_session=True)


def _await(workers: list[subprocess.Popen[bytes]], store: FileStore) -> None:
    """Wait until all have started. Joining has no end when one of them is dead, so it comes after this."""
    while not store.check([f"started/{rank}" for rank in range(1, len(workers) + 1)]):
        if any(worker.poll() is not None for worker in workers):
            raise QkvError(
                "a worker process ended before it could begin; go on with --resume, or set training.workers=1"
            )
        time.sleep(0.02)


@contextmanager
def join_as_worker(address: str, rank: int, world: int) -> Iterator[Team]:
    """In a worker process: meet the others."""
    store = FileStore(address, world)
    store.set(f"started/{rank}", "yes")
    try:
        yield _join(store, rank, world)
    finally:
        _leave()


def _join(store: FileStore, rank: int, world: int) -> Team:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=LONGEST_WAIT)
    return Team(rank, world)


def _stop(workers: list[subprocess.Popen[bytes]]) -> None:
    """Let them end by themselves, but not for long."""
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
