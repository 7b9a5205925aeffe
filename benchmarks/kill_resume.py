"""Kill a training run with SIGKILL at random moments, resume it each time, and compare it with one left alone.

    python benchmarks/kill_resume.py [--kills 50] [--workers 1] [--seed N]

Dropout, subword sampling, noise, accumulation and a moving average are on. Compared are loss, negative
log-likelihood and gradient norm of every update to the last bit, every validation, and the SHA-256 of the final
weights, the optimiser's memory and the best model. Prints one line of JSON; exits with 1 if anything differs.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

QKV = [sys.executable, "-c", "from qkv.cli import main; main()"]
EXACT = ("loss", "nll", "grad_norm")
EARLY = 0.1
"""Share of kills before the first update of a session: in the imports, the preparation or the reading."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qkv-kill-") as name:
        report = compare(Path(name), options.kills, options.workers, random.Random(options.seed))
    print(json.dumps({"seed": options.seed, "workers": options.workers, **report}))
    sys.exit(not report["identical"])


def compare(folder: Path, kills: int, workers: int, moments: random.Random) -> dict[str, Any]:
    """Train twice, once in peace."""
    write_pairs(folder)
    updates = 10 * kills
    for run in ("straight", "killed"):
        (folder / f"{run}.yaml").write_text(json.dumps(recipe(folder, folder / run, updates, workers)))
    began = time.monotonic()
    subprocess.run([*QKV, "train", folder / "straight.yaml"], check=True, stderr=subprocess.DEVNULL)
    straight_seconds = time.monotonic() - began
    counts = kill_again_and_again(folder, kills, moments)
    ours, theirs = result(folder / "killed"), result(folder / "straight")
    return {
        "updates": updates,
        **counts,
        "identical": ours == theirs,
        "differing": [key for key in theirs if ours.get(key) != theirs[key]],
        "straight_seconds": round(straight_seconds, 1),
        "seconds": round(time.monotonic() - began, 1),
    }


def kill_again_and_again(folder: Path, kills: int, moments: random.Random) -> dict[str, int]:
    """The run with all its kills; counts where they struck."""
    run, counts = folder / "killed", {"kills": 0, "before_an_update": 0, "in_a_save": 0, "sessions": 0}
    while True:
        resume = (run / "config.yaml").is_file()
        arguments = ["--resume", run] if resume else [folder / "killed.yaml"]
        counts["sessions"] += 1
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen([*QKV, "train", *arguments], stderr=log)
        if counts["kills"] == kills:
            if child.wait():
                raise SystemExit((folder / "log").read_text())
            return counts
        before = size(run / "metrics.jsonl")
        early = moments.random() < EARLY
        while not early and child.poll() is None and size(run / "metrics.jsonl") in (before, 0):
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 4.0 if early else 0.4))
        if child.poll() is not None:
            raise SystemExit("the run ended before it could be killed: " + (folder / "log").read_text())
        child.kill()
        child.wait()
        counts["kills"] += 1
        counts["before_an_update"] += size(run / "metrics.jsonl") == before
        counts["in_a_save"] += any(run.glob("**/*.tmp"))


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def result(run: Path) -> dict[str, Any]:
    """Everything that must be the same; an update that stood twice in the log would differ too."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    files = {
        "weights": last / "manifest.json",
        "best": run / "best" / "manifest.json",
    }
    hashes = {
        key: {name: about["sha256"] for name, about in json.loads(path.read_text())["files"].items()}
        for key, path in files.items()
    }
    hashes["weights"].pop("state.json")  # holds the time spent
    return {
        "order": [line.get("update", "validation") for line in lines],
        "updates": [[float(line[key]).hex() for key in EXACT] for line in lines if "grad_norm" in line],
        "validations": [line for line in lines if "validation" in line],
        "left over": [path.name for path in run.glob("**/*.tmp")],
        **hashes,
    }


def write_pairs(folder: Path) -> None:
    """Strings of letters and their reversal."""
    letters = random.Random(1)
    for name, count in (("train", 300), ("dev", 20)):
        words = ["".join(letters.choices("abcdefgh", k=letters.randint(1, 12))) for _ in range(count)]
        (folder / f"{name}.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))


def recipe(folder: Path, run: Path, updates: int, workers: int) -> dict[str, Any]:
    """A small model with everything on that draws random numbers or remembers something."""
    pieces = {"kind": "sentencepiece", "model": "unigram", "vocab_size": 50, "byte_fallback": False, "sampling": 0.3}
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    return {
        "run": str(run),
        "data": {
            "root": str(folder),
            "train": {"kind": "tsv", "path": "train.tsv"},
            "dev": {"kind": "tsv", "path": "dev.tsv"},
        },
        "text": {"shared": pieces},
        "batch": {"tokens": 200},
        "model": {**sizes, "dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1},
        "objective": {"noise": [{"kind": kind, "rate": 0.1, "warmup": 50} for kind in ("drop", "replace", "mask")]},
        "schedule": {"kind": "inverse_sqrt", "peak": 2e-3, "warmup": 100},
        "training": {
            "stop_after": f"{updates}u",
            "accumulate": 2,
            "ema": 0.99,
            "save_every": "2u",
            "threads": 1,
            "workers": workers,
        },
        "validation": {"every": "10u", "metrics": ["exact"], "samples": 2},
    }


if __name__ == "__main__":
    main()
