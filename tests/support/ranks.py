"""The processes of a run as torchrun starts them, without the seconds that torchrun takes."""

import os
import socket
from pathlib import Path

from tests.support.forks import Child, Forks, command


def as_rank(rank: int, world: int, port: int, *arguments: str) -> None:
    """`qkv ARGUMENTS` in a process that torchrun would have started."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
    command(*arguments)


def start_ranks(forks: Forks, world: int, *arguments: object) -> list[Child]:
    """All of them; the first is rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [
        forks.start("tests.support.ranks:as_rank", rank, world, port, *map(str, arguments)) for rank in range(world)
    ]


def run_ranks(forks: Forks, world: int, *arguments: object) -> str:
    """Until all have ended well; what rank 0 said."""
    ended = [child.wait(180) for child in start_ranks(forks, world, *arguments)]
    for one in ended:
        assert one.code == 0, one.stderr
    return ended[0].stderr


def train_with(forks: Forks, world: int, recipe: Path) -> str:
    """Train in `world` processes."""
    return run_ranks(forks, world, "train", recipe)
