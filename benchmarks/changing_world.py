"""Does a run that grows and shrinks stay the run of one process? The same batches, and how far do losses drift apart?

    python benchmarks/changing_world.py --worlds 1,2,4,3 --updates 60 --sharding full

torchrun starts each number of processes in turn, and each goes on from the last checkpoint of the one before. `batch`
in metrics.jsonl identifies the examples of an update; they are compared with those of one process that is never
interrupted, and so are the losses. Without dropout: each rank draws its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from word_pairs import write_reversals

from qkv.training.run.folder import read_metrics

ALLOWED = 5e-3
"""How far apart losses may be."""
RECIPE = """
data: {{root: {root}, train: {{kind: tsv, path: pairs.tsv}}}}
run: {root}/run
text: {{shared: char}}
batch: {{tokens: 400}}
model: {{d_model: 32, d_ff: 64, num_heads: 4, encoder_layers: 2, decoder_layers: 2, dropout: 0}}
schedule: {{kind: inverse_sqrt, peak: 3e-3, warmup: 20}}
training: {{stop_after: {updates}u, save_every: 5u, device: cpu, threads: 1}}
"""


def train(root: Path, world: int, *arguments: str) -> None:
    program = root / "train.py"
    program.write_text("from qkv.cli import main; main()\n")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    ended = subprocess.run([*launch, str(program), "train", *arguments], capture_output=True, text=True)
    if ended.returncode:
        sys.exit(ended.stderr)


def updates(run: Path) -> list[tuple[str, float]]:
    """The batch and the loss of each update."""
    return [(line["batch"], line["loss"]) for line in read_metrics(run / "metrics.jsonl") if "batch" in line]


def compare(root: Path, worlds: list[int], total: int, sharding: str) -> bool:
    """Prints a line for each number of processes; returns whether all is well."""
    write_reversals(root / "pairs.tsv")
    recipe = root / "recipe.yaml"
    recipe.write_text(RECIPE.format(root=root, updates=total))
    train(root, 1, str(recipe), f"run={root / 'straight'}")
    ends = [(number + 1) * total // len(worlds) for number in range(len(worlds))]
    for number, (world, end) in enumerate(zip(worlds, ends, strict=True)):
        start = ["--resume", str(root / "run")] if number else [str(recipe)]
        train(root, world, *start, f"training.stop_after={end}u", f"training.sharding={sharding}")
    ours, theirs = updates(root / "run"), updates(root / "straight")
    print(f"sharding {sharding}\nupdates   processes  batches   loss differs by")
    good, first = len(ours) == len(theirs) == total, 0
    for world, end in zip(worlds, ends, strict=True):
        pairs = list(zip(ours[first:end], theirs[first:end], strict=True))
        same = all(one[0] == other[0] for one, other in pairs)
        apart = max(abs(one[1] - other[1]) for one, other in pairs)
        print(f"{first + 1:3} to {end:2}  {world:9}  {'the same' if same else 'OTHERS'}  {apart:.1e}", flush=True)
        good, first = good and same and apart < ALLOWED, end
    print(f"the loss fell from {theirs[0][1]:.3f} to {theirs[-1][1]:.3f}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="1,2,4,3", help="numbers of processes, one after the other")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--sharding", choices=["none", "full"], default="none")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="qkv-world-") as folder:
        worlds = [int(world) for world in options.worlds.split(",")]
        sys.exit(not compare(Path(folder), worlds, options.updates, options.sharding))


if __name__ == "__main__":
    main()
