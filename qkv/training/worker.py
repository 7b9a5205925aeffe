"""A worker process other than the leader: `python -m qkv.training.worker RUN RANK WORLD ADDRESS CHECKPOINT`."""

import signal
import sys
from pathlib import Path

from qkv.config import load_config
from qkv.errors import QkvError
from qkv.kernels.memory import keep_freed_memory
from qkv.training.distributed import join_as_worker
from qkv.training.prepare import open_prepared
from qkv.training.recipe import Recipe
from qkv.training.run_folder import RunFolder
from qkv.training.trainer import make_loop


def main(run_path: str, rank: str, world: str, address: str, checkpoint: str) -> None:
    """Load what the leader prepared, join the team, and compute this rank's share until the leader stops."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    run = RunFolder(Path(run_path))
    recipe = load_config(Recipe, run.config)
    team = join_as_worker(address, int(rank), int(world))
    make_loop(recipe, open_prepared(recipe, run), Path(checkpoint) if checkpoint else None, team).run()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except QkvError:
        # The leader notices the closed connection and tells the user.
        sys.exit(1)
