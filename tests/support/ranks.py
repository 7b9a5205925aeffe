"""The processes of a run as torchrun starts them, without the seconds that torchrun takes."""

import os
import signal
import socket
from pathlib import Path

from tests.support.faults import with_small_files
from tests.support.forks import Child, Forks, command


def as_rank(rank: int, world: int, port: int, *arguments: str) -> None:
    """`qkv ARGUMENTS` in a process that torchrun would have started."""
    set_rank(rank, world, port)
    command(*arguments)


def as_rank_with_a_full_disk(rank: int, world: int, port: int, *arguments: str) -> None:
    """The same where a file can hold only the log and the state of a run."""
    set_rank(rank, world, port)
    with_small_files(3000, *arguments)


def set_rank(rank: int, world: int, port: int) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}


def start_ranks(forks: Forks, world: int, *arguments: object, full_disk_of: int | None = None) -> list[Child]:
    """All of them; the first is rank 0. The disk of `full_disk_of` is full."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    acts = ["as_rank_with_a_full_disk" if rank == full_disk_of else "as_rank" for rank in range(world)]
    words = [str(argument) for argument in arguments]
    return [forks.start(f"tests.support.ranks:{act}", rank, world, port, *words) for rank, act in enumerate(acts)]


def run_ranks(forks: Forks, world: int, *arguments: object) -> str:
    """Until all have ended well; what rank 0 said."""
    ended = [child.wait(180) for child in start_ranks(forks, world, *arguments)]
    if any(one.code == -signal.SIGSEGV for one in ended):
        # PyTorch 2.13's thread of gloo (pt_gloo_runloop) has crashed inside malloc, in one of three runs of the suite
        # and in none of 42 tries to see it again; the cause is not known. The same command resumes such a run, which
        # must then equal an undisturbed one.
        ended = [child.wait(180) for child in start_ranks(forks, world, *arguments)]
    for one in ended:
        assert one.code == 0, f"exit code {one.code}\n{one.stderr}"
    return ended[0].stderr


def train_with(forks: Forks, world: int, recipe: Path) -> str:
    """Train in `world` processes."""
    return run_ranks(forks, world, "train", recipe)
