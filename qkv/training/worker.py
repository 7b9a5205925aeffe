"""A worker process other than rank 0: `python -m qkv.training.worker RUN RANK WORLD ADDRESS CHECKPOINT`."""

import sys
from pathlib import Path

from qkv.config import load_config
from qkv.core.devices import choose_device
from qkv.core.errors import QkvError, TeamBroken
from qkv.training.distributed import join_as_worker
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.session import follow
from qkv.training.setup.memory import set_memory


def main(run: str, rank: str, world: str, address: str, checkpoint: str) -> None:
    """Join the team and compute this rank's share until rank 0 stops."""
    folder = RunFolder(Path(run))
    recipe = load_config(Recipe, folder.config)
    training = recipe.training
    set_memory(training.sharding, choose_device(training.device))
    with join_as_worker(address, int(rank), int(world), training.device, training.timeout) as team:
        follow(folder, Path(checkpoint) if checkpoint else None, team)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TeamBroken:
        # Rank 0 has ended or has noticed too, and reports it.
        sys.exit(1)
    except QkvError as error:
        print(f"qkv: worker {sys.argv[2]}: {error}", file=sys.stderr)
        sys.exit(1)
