"""How much memory does training take with activation checkpointing, and on each rank of a sharded run?

    python benchmarks/training_memory.py --depths 2 6 12 --processes 1 2 4

Every number is the peak of the resident memory of a process of `qkv train`, above what it has when everything is
imported. First one process, a few updates of batches as large as activations must be to count; then several, with
batches so small that weights, gradients and moments are all that counts (16 bytes a parameter with AdamW).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = """
import os, resource, sys
import sacrebleu, torch._dynamo, torch.distributed.fsdp, torch.distributed.checkpoint.hf_storage
import qkv.training.trainer, qkv.training.sharded.learner
from qkv.cli import main

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

before = peak()
try:
    main()
finally:
    with open(os.path.join(os.environ["PEAKS"], os.environ.get("RANK", "0")), "w") as file:
        file.write(str(peak() - before))
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


def train(root: Path, keys: dict[str, Any], processes: int, *changes: str) -> tuple[list[float], float]:
    """The peak of each rank in MiB, and the seconds of the fastest update."""
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
        lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        peaks = [int((folder / str(rank)).read_text()) / MIB for rank in range(processes)]
        return peaks, min(line["seconds"] for line in lines if "batch" in line)


def write_pairs(path: Path, length: int) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=length)) for _ in range(200)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))


def print_recomputed(root: Path, depths: list[int], width: int, tokens: int) -> None:
    print(f"one process, width {width}, {tokens} tokens a batch: MiB at the peak (seconds an update)")
    print("layers  activations kept  computed again")
    for depth in depths:
        cells = []
        for again in ("false", "true"):
            keys = recipe(root, depth, width, tokens)
            (peak,), seconds = train(root, keys, 1, f"training.activation_checkpointing={again}")
            cells.append(f"{peak:,.0f} ({seconds:.2f})")
        print(f"{depth} + {depth}".ljust(6) + f"  {cells[0]:>16}  {cells[1]:>14}", flush=True)


def print_sharded(root: Path, processes: list[int], width: int, depth: int) -> None:
    parameters = depth * (12 + 16) * width**2
    print(f"\nabout {parameters / 1e6:.0f} M parameters, batches of 64 tokens: MiB at the peak of a process")
    print("processes  16 P / N  whole on each  sharded: rank 0  the others")
    for count in processes:
        keys = recipe(root, depth, width, 64)
        whole = max(train(root, keys, count)[0])
        parted = train(root, keys, count, "training.sharding=full")[0] if count > 1 else []
        rest = f"  {parted[0]:15,.0f}  {max(parted[1:]):10,.0f}" if parted else ""
        print(f"{count:9}  {16 * parameters / count / MIB:8,.0f}  {whole:13,.0f}{rest}", flush=True)


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
