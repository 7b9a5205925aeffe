"""How much memory does training take with activation checkpointing, and on each rank of a sharded run?

    python benchmarks/training_memory.py --depths 2 6 12 --processes 1 2 4

Every number is the peak of the resident memory of a process of `qkv train`, above what it has when everything is
imported; a checkpoint is written at the end. First one process, a few updates of batches as large as activations must
be to count; then several, with batches so small that weights, gradients and moments are all that counts (16 bytes a
parameter with AdamW).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = """
import os, resource, sys
import sacrebleu, torch._dynamo, torch.distributed.fsdp, torch.distributed.checkpoint.hf_storage
import qkv.training.trainer, qkv.training.run.learner, qkv.training.sharded.learner
from qkv.cli import main

def used():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024), used.ru_utime

before, began = used()
updating = []

def noting(module, name):
    plain = getattr(module, name)
    def noted(*arguments):
        updating.append(used()[0])
        return plain(*arguments)
    setattr(module, name, noted)

noting(qkv.training.run.learner, "save_checkpoint")
noting(qkv.training.sharded.learner, "begin_to_write")
try:
    main()
finally:
    peak, end = used()
    with open(os.path.join(os.environ["PEAKS"], os.environ.get("RANK", "0")), "w") as file:
        file.write(f"{(updating or [peak])[0] - before} {peak - before} {end - began}")
"""
MIB = 1 << 20


def recipe(root: Path, layers: int, width: int, tokens: int) -> dict[str, Any]:
    return {
        "data": {"root": str(root), "train": {"kind": "tsv", "path": "pairs.tsv"}},
        "run": str(root / "run"),
        "text": {"shared": "char"},
        "batch": {"tokens": tokens},
        "model": {
            "d_model": width,
            "d_ff": 4 * width,
            "num_heads": 4,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "residual": "pre",
        },
        "training": {"stop_after": "3u", "save_every": "100u", "device": "cpu", "threads": 1},
    }


@dataclass(frozen=True)
class Used:
    """What a process used: its peaks in MiB, and seconds of the processor."""

    updating: float
    """Before a checkpoint was written."""
    peak: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.updating:,.0f} / {self.peak:,.0f}"


def train(root: Path, keys: dict[str, Any], processes: int, *changes: str) -> list[Used]:
    """What each rank used."""
    with tempfile.TemporaryDirectory(dir=root) as name:
        folder = Path(name)
        (folder / "recipe.json").write_text(json.dumps(keys | {"run": str(folder / "run")}))
        (folder / "train.py").write_text(PROGRAM)
        launch = [sys.executable]
        if processes > 1:
            launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command = [*launch, str(folder / "train.py"), "train", str(folder / "recipe.json"), *changes]
        environment = {**os.environ, "PEAKS": name, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        if ended.returncode:
            sys.exit(ended.stderr)
        found = [(folder / str(rank)).read_text().split() for rank in range(processes)]
        return [Used(int(updating) / MIB, int(peak) / MIB, float(seconds)) for updating, peak, seconds in found]


def write_pairs(path: Path, length: int) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=length)) for _ in range(200)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))


def print_recomputed(root: Path, depths: list[int], width: int, tokens: int) -> None:
    print(f"one process, width {width}, {tokens} tokens a batch, 3 updates: MiB at the peak (processor seconds)")
    print("layers  activations kept  computed again")
    for depth in depths:
        cells = []
        for again in ("false", "true"):
            keys = recipe(root, depth, width, tokens)
            (used,) = train(root, keys, 1, f"training.activation_checkpointing={again}")
            cells.append(f"{used.updating:,.0f} ({used.seconds:.1f})")
        print(f"{depth} + {depth}".ljust(6) + f"  {cells[0]:>16}  {cells[1]:>14}", flush=True)


def print_sharded(root: Path, processes: list[int], width: int, depth: int) -> None:
    parameters = depth * (12 + 16) * width**2
    print(f"\nabout {parameters / 1e6:.0f} M parameters, batches of 64 tokens: MiB at the peak of updates / of all")
    print("processes  16 P / N  whole: rank 0   the others  sharded: rank 0   the others")
    for count in processes:
        keys = recipe(root, depth, width, 64)
        line = f"{count:9}  {16 * parameters / count / MIB:8,.0f}"
        for sharding, column in (("none", 13), ("full", 15)) if count > 1 else (("none", 13),):
            first, *others = train(root, keys, count, f"training.sharding={sharding}")
            line += f"  {first!s:>{column}}  {max(others, key=lambda used: used.peak, default='')!s:>11}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="*", default=[2, 6, 12])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--width", type=int, default=128, help="with activation checkpointing")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch with activation checkpointing")
    parser.add_argument("--sharded-width", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qkv-memory-") as name:
        root = Path(name)
        write_pairs(root / "pairs.tsv", 60)
        if options.depths:
            print_recomputed(root, options.depths, options.width, options.tokens)
        if options.processes:
            print_sharded(root, options.processes, options.sharded_width, 6)


if __name__ == "__main__":
    main()
