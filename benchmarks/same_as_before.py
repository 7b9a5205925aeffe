"""Does a recipe train as it did in another version: the same losses bit for bit, as fast?

    git worktree add before v0.1
    python benchmarks/same_as_before.py before multi30k-en-de data.root=DIR training.workers=1

Trains the recipe for --updates with that version's checkout and with this one, in turns, each time in a new process of
one thread. Prints whether losses and norms of gradients are the same bit for bit, and the processor time of both: the
median over --rounds of the ratio within a round. Exits with 1 if a number differs.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PROGRAM = "from qkv.cli import main; main()"


def train(checkout: Path, run: Path, words: list[str]) -> tuple[list[tuple[float, float]], float]:
    """Loss and norm of the gradient of each update, and the seconds of the processor."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-c", PROGRAM, "train", *words, f"run={run}"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ended.returncode:
        sys.exit(f"{checkout}: {ended.stderr}")
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["loss"], line["grad_norm"]) for line in lines if "grad_norm" in line], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("recipe", nargs="+", help="and its overrides, as for qkv train")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    words = [*options.recipe, f"training.stop_after={options.updates}u", "training.threads=1"]
    words.append(f"validation.every={2 * options.updates}u")
    ratios, same = [], True
    with tempfile.TemporaryDirectory(prefix="qkv-before-") as name:
        for number in range(options.rounds):
            root = Path(name) / str(number)
            old, old_seconds = train(options.before, root / "before", words)
            new, new_seconds = train(HERE, root / "now", words)
            ratios.append(new_seconds / old_seconds)
            same = same and old == new and len(new) == options.updates
    print(f"{options.updates} updates: losses and gradients are {'the same bit for bit' if same else 'NOT the same'}")
    print(f"processor time now / before: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
