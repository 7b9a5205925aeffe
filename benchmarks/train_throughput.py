"""Training speed: ours, eole and JoeyNMT side by side on Multi30k English-German, `tiny`, on the machine at hand.

Peers live in environments of their own (the last name on each line is what the peer imports and does not ask for):

    python3 -m venv eole && eole/bin/pip install torch==2.13.0 eole==0.6.4 aiohttp
    python3 -m venv joeynmt && joeynmt/bin/pip install torch==2.13.0 joeynmt==2.3.0 importlib_metadata

Then, in our environment:

    python benchmarks/train_throughput.py --data DIR/multi30k --eole-python eole/bin/python \\
        --joeynmt-python joeynmt/bin/python

What is equal: the text, cut beforehand into pieces by one SentencePiece model (BPE, 8,000, both languages together) and
read by all as whitespace-separated tokens; the vocabulary, but for special symbols; 4+4 layers, width 128, feed-forward
256, 4 heads, one shared embedding matrix, dropout 0.3, label smoothing 0.1, Adam with clipping; batches of 4,096
tokens, padding included. Each system uses all cores in the best way it has on a CPU: the peers by threads in one
process, ours by one process a core. What else differs, because a peer cannot do otherwise, is said in peers/configs.py.
`--precisions fp32 bf16` trains ours and eole in both; JoeyNMT has nothing but fp32 on a CPU.

What is counted: target tokens that are not padding, with the end of the sentence, that the model was trained on,
divided by the seconds of those updates. An update lasts from the end of the one before to its own end, so reading the
batch, forward, backward and optimiser are all in it; start-up, validation, checkpoints and the first `--warmup` updates
are not. Ours comes from its metrics.jsonl (whose seconds leave out the writing of the line itself: 0.03 % when it was
measured with one worker), the peers' from peers/probe.py, which counts their batches as they enter the training step.

The systems take turns, and a ratio is taken within each turn, so that a machine that slows down slows all of them.
Nothing else may run meanwhile: on a busy machine the peers lost far more than we did, and the ratios came out several
times too high. What others use is measured before each turn, recorded, and warned of.
"""

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.configs import BATCH_TOKENS, DROPOUT, LABEL_SMOOTHING, LEARNING_RATE, eole_config, joeynmt_config
from peers.launch import launch
from peers.pieces import write_pieces

MAX_BUSY = 0.1
Train = Callable[[Path], Path]
MakeConfig = Callable[[Path, Path, int], dict[str, Any]]
PROBE = Path(__file__).parent / "peers" / "probe.py"


def run_ours(qkv: Path, precision: str, data: Path, run: Path, updates: int) -> Path:
    """Train with `qkv train`; the path of its metrics, one line an update."""
    recipe = {
        "run": str(run / "model"),
        "data": {"root": str(data), "train": {"kind": "text", "src": "train.en", "tgt": "train.de"}},
        "text": {"shared": "whitespace"},
        "batch": {"tokens": BATCH_TOKENS},
        # The peers also drop inside the feed-forward network: with it the work is the same.
        "model": {"preset": "tiny", "dropout": DROPOUT, "feed_forward_dropout": DROPOUT, "share_embeddings": "all"},
        "objective": {"smoothing": {"kind": "uniform", "amount": LABEL_SMOOTHING}},
        "schedule": {"kind": "constant", "peak": LEARNING_RATE},
        "training": {"stop_after": f"{updates}u", "workers": "auto", "precision": precision},
    }
    (run / "recipe.yaml").write_text(json.dumps(recipe, indent=2), encoding="utf-8")
    launch([str(qkv), "train", str(run / "recipe.yaml")], run / "log.txt")
    return run / "model" / "metrics.jsonl"


def run_peer(peer: str, python: Path, config: MakeConfig, data: Path, run: Path, updates: int) -> Path:
    """Train with the peer's own command under the probe; the path of the probe's lines, one an update."""
    (run / "config.yaml").write_text(json.dumps(config(data, run, updates), indent=2), encoding="utf-8")
    launch([str(python), str(PROBE), peer, str(run / "config.yaml"), str(run / "updates.jsonl")], run / "log.txt")
    return run / "updates.jsonl"


def tokens_per_second(path: Path, warmup: int, updates: int) -> float:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    # Other lines, such as those of a validation, have no tokens.
    counted = [line for line in lines if "tgt_tokens" in line and warmup < line["update"] <= warmup + updates]
    if len(counted) != updates:
        raise SystemExit(f"{path}: {len(counted)} updates after the warm-up, {updates} were asked for")
    return float(sum(line["tgt_tokens"] for line in counted) / sum(line["seconds"] for line in counted))


def busy_share(seconds: float = 3.0) -> float | None:
    """The share of the machine that others use while nothing of ours runs; None where the kernel does not tell."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    before = [int(field) for field in stat.read_text(encoding="ascii").split("\n")[0].split()[1:]]
    time.sleep(seconds)
    after = [int(field) for field in stat.read_text(encoding="ascii").split("\n")[0].split()[1:]]
    spent = [b - a for a, b in zip(before, after, strict=True)]
    idle, waiting = spent[3], spent[4]
    return 1 - (idle + waiting) / sum(spent)


def measure(systems: dict[str, Train], options: argparse.Namespace) -> tuple[dict[str, list[float]], float | None]:
    """Target tokens per second of each system in each turn, and the largest share of the machine others used."""
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    busy: list[float] = []
    for repeat in range(options.repeats):
        for name, train in systems.items():
            share = busy_share()
            busy += [] if share is None else [share]
            run = options.work / f"{name}-{repeat}"
            shutil.rmtree(run, ignore_errors=True)
            run.mkdir(parents=True)
            speeds[name].append(tokens_per_second(train(run), options.warmup, options.updates))
            print(f"turn {repeat + 1}/{options.repeats}  {name:9} {speeds[name][-1]:8,.0f} tgt tok/s", flush=True)
    return speeds, max(busy, default=None)


def report(speeds: dict[str, list[float]]) -> dict[str, Any]:
    """Print the table; the figures for the JSON line. A ratio is the median of the ratios of each turn."""
    first = next(iter(speeds))
    figures: dict[str, Any] = {}
    print(f"\n{'system':10}{'tgt tok/s, median':>20}{'lowest':>10}{'highest':>10}{first + ' is':>12}{'spread':>14}")
    for name, values in speeds.items():
        ratios = [a / b for a, b in zip(speeds[first], values, strict=True)]
        ratio, median = statistics.median(ratios), statistics.median(values)
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        print(f"{name:10}{median:20,.0f}{min(values):10,.0f}{max(values):10,.0f}{ratio:11.2f}x{spread:>14}")
        figures[name] = {"tokens_per_second": values, "median": median, f"{first}_over_this": ratios, "ratio": ratio}
    return figures


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training speed of ours, eole and JoeyNMT on Multi30k, `tiny`.")
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en, train.de, val.en, val.de")
    parser.add_argument("--eole-python", type=Path, help="Python of the environment with eole; left out without it")
    parser.add_argument("--joeynmt-python", type=Path, help="the same for JoeyNMT")
    parser.add_argument("--qkv", type=Path, default=Path(sys.executable).with_name("qkv"), help="our command")
    parser.add_argument("--peers-only", action="store_true", help="do not run ours")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32"], help="of ours and eole")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=60, help="updates that are measured in each run")
    parser.add_argument("--warmup", type=int, default=10, help="updates before them that are not")
    parser.add_argument("--work", type=Path, default=Path("runs/train_throughput"), help="folder for data and runs")
    parser.add_argument("--output", type=Path, help="file to append the JSON line to (default: WORK/results.jsonl)")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    options.work = options.work.resolve()
    data, total = options.work / "data", options.warmup + options.updates
    write_pieces(options.data, data)
    systems: dict[str, Train] = {}
    for precision in options.precisions:
        suffix = "" if precision == "fp32" else f"-{precision}"
        if not options.peers_only:
            train_ours = functools.partial(run_ours, options.qkv.absolute(), precision)
            systems["qkv" + suffix] = functools.partial(train_ours, data, updates=total)
        if options.eole_python:
            config = functools.partial(eole_config, precision=precision)
            train_eole = functools.partial(run_peer, "eole", options.eole_python.absolute(), config)
            systems["eole" + suffix] = functools.partial(train_eole, data, updates=total)
    if options.joeynmt_python:
        train_joeynmt = functools.partial(run_peer, "joeynmt", options.joeynmt_python.absolute(), joeynmt_config)
        systems["joeynmt"] = functools.partial(train_joeynmt, data, updates=total)
    speeds, busy = measure(systems, options)
    figures = report(speeds)
    if busy is not None and busy > MAX_BUSY:
        print(f"DO NOT QUOTE THIS: others used up to {busy:.0%} of the machine; run it again when it is idle")
    line = {
        "benchmark": "train_throughput",
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "busy_share_of_others": busy,
        "warmup": options.warmup,
        "updates": options.updates,
        "systems": figures,
    }
    output = options.output or options.work / "results.jsonl"
    with output.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(f"written to {output}")


if __name__ == "__main__":
    main()
