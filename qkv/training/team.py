"""The processes of a run, seen from one of them: what they sum, and what rank 0 tells the others."""

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from qkv.core.errors import TeamBroken

LONGEST_WAIT = datetime.timedelta(hours=12)
"""For the start of all processes."""
SIGN_OF_LIFE = 5.0
"""Seconds after which a rank 0 that is busy lets the others know that it lives."""


class TeamOrder(IntEnum):
    """What rank 0 tells the others between two updates."""

    GO_ON = 0
    STOP = 1
    WAIT = 2
    """Rank 0 validates or saves."""
    GATHER = 3
    """Sharded weights are put together on rank 0."""
    SAVE = 4
    """Each rank saves its shards."""


@dataclass(frozen=True)
class Team:
    """The rank of this process and the number of processes."""

    rank: int = 0
    world: int = 1
    store: Any = field(default=None, compare=False)
    """The store where the ranks met, if it is still there."""
    _told: list[float] = field(default_factory=lambda: [0.0], compare=False)
    """When rank 0 last told something."""

    @property
    def is_main(self) -> bool:
        """Only rank 0 writes, prints and validates."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum `tensor` over all ranks, in place."""
        if self.world == 1:
            return
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            raise _broken() from error

    def barrier(self) -> None:
        """Wait until every rank gets here."""
        self.all_reduce(torch.zeros(1))

    def announce(self, what: str) -> None:
        """On rank 0: `what` is done."""
        if self.store is not None:
            self.store.set(what, "done")
        self.barrier()

    def wait_for(self, what: str) -> None:
        """On every other rank: wait for an announcement, for hours if need be."""
        if self.store is not None:
            with self.together():
                # Asked again and again: a wait for hours would not notice that the network is gone.
                while not self.store.check([what]):
                    time.sleep(0.2)
        self.barrier()

    def tell(self, order: TeamOrder, minutes: float = 0.0) -> None:
        """On rank 0: what comes next, and the clock of the run."""
        self.all_reduce(torch.tensor([order, minutes], dtype=torch.float64))
        self._told[0] = time.monotonic()

    def hear(self) -> tuple[TeamOrder, float]:
        """On every other rank: what rank 0 tells."""
        told = torch.zeros(2, dtype=torch.float64)
        self.all_reduce(told)
        order, minutes = told.tolist()
        return TeamOrder(int(order)), minutes

    def let_wait(self) -> None:
        """On rank 0, now and then while it is busy: else the others would take it for dead."""
        if self.world > 1 and time.monotonic() - self._told[0] > SIGN_OF_LIFE:
            self.tell(TeamOrder.WAIT)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context of an operation in which all ranks take part; raises TeamBroken if one of them is gone."""
        try:
            yield
        except RuntimeError as error:
            if self.world == 1 or not _is_of_the_network(error):
                raise
            raise _broken() from error


def _broken() -> TeamBroken:
    return TeamBroken(
        "a worker process ended unexpectedly or cannot be reached; the last checkpoint is good; resume with --resume"
    )


def _is_of_the_network(error: RuntimeError) -> bool:
    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in ("gloo", "nccl", "connection"))
