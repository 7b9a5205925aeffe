"""Items through a pool of actors, by Ray Data: it starts them, feeds them, holds back what they cannot take yet, and
gives the items of an actor or a node that died to others.
"""

import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from qkv.core.errors import QkvError, error_text
from qkv.translate.cluster.connection import Cluster

Item = TypeVar("Item")
Found = TypeVar("Found")

IN_FLIGHT = 2
"""Items that an actor has at once: one that it works on, and the next."""
LIVES = 10
"""How often an item may lose its actor. One that kills every actor is given up in the end."""


@dataclass(frozen=True)
class Unopened:
    """What an actor answers that could not open its work."""

    reason: str


class Actor:
    """A process that opens what the work needs once and then takes item after item."""

    def __init__(self, open_work: Callable[[], Callable[[Any], Any]]) -> None:
        try:
            self.work = open_work()
        except Exception as error:
            # Raised here, it would reach the user as several pages of Ray's own tracebacks.
            unopened = Unopened(error_text(error))
            self.work = lambda item: unopened

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = [pickle.dumps(self.work(pickle.loads(item))) for item in batch["item"]]
        return {"found": np.array(found, dtype=object)}


def in_actors(
    cluster: Cluster,
    open_work: Callable[[], Callable[[Item], Found]],
    items: Sequence[Item],
    ordered: bool = False,
    gpu: bool = False,
) -> Iterator[Found]:
    """What the work makes of each item, as soon as it is there, or in the order of the items.

    An actor calls `open_work` once, on a core or, with `gpu`, with a GPU of its own. An item that is lost,
    because its actor died time and again, has no result.
    """
    from ray import data
    from ray.exceptions import RayError

    if not items:
        return
    _configure(data.DataContext.get_current(), ordered)
    rows = data.from_items([{"item": pickle.dumps(item)} for item in items], override_num_blocks=len(items))
    actors = cluster.gpus if gpu else cluster.actors
    if not actors:
        raise QkvError(
            "the model is to run on a GPU, but the cluster has none; add a node with one, or give --device cpu"
        )
    pool = data.ActorPoolStrategy(size=min(actors, len(items)), max_tasks_in_flight_per_actor=IN_FLIGHT)
    with warnings.catch_warnings():
        # Deprecated, but Ray 2.60 has no other way to bound the retries of an actor's work.
        warnings.simplefilter("ignore")
        found = rows.map_batches(
            Actor,
            fn_constructor_args=(open_work,),
            batch_size=1,
            compute=pool,
            num_cpus=1,
            num_gpus=1 if gpu else None,
            ray_remote_args_fn=lambda: {"max_task_retries": LIVES},
        )
    try:
        for row in found.iter_rows():
            answer = pickle.loads(row["found"])
            if isinstance(answer, Unopened):
                raise QkvError(f"an actor cannot start: {answer.reason}")
            yield answer
    except RayError as error:
        raise QkvError(f"an actor could not start, or crashed: {_reason(error)}") from error


def _configure(context: Any, ordered: bool) -> None:
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_errored_blocks = -1
    context.execution_options.preserve_order = ordered
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _reason(error: BaseException) -> str:
    """The last line: those before are tracebacks of processes elsewhere."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
