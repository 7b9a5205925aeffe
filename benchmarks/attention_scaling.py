"""How do time and memory of one layer of attention grow with the length? Ours, and other packages at the same sizes.

    python benchmarks/attention_scaling.py [--kinds truncated lsh ...] [--lengths 512 1024 ...] [--seconds 600]

The others are transformers, local-attention and reformer-pytorch; those that are not installed are named and left out:

    pip install transformers local-attention reformer-pytorch

Each measurement is a process of its own with one thread, which keeps freed memory as training does. Its time is what
the processor worked for it, the least of several passes; its memory is the peak of what is resident, above what was
there before the first pass. "forward" keeps nothing for gradients, "both" is forward and backward. What would take more
than --memory or --seconds-each, judged by the shorter lengths, is left out. The slope is that of a line through the
logarithms, over the longer half of the lengths: 1 is proportional to the length, 2 to its square.

Every result is a line of JSON in --out as soon as it is there; what the file holds already is not measured again.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from peers.attention import KINDS, RIVALS, Sizes, missing
from process_memory import allow, peak_bytes, ran_out

from qkv.core.progress import default_reporter
from qkv.kernels.memory import keep_freed_memory
from qkv.visual.charts import draw_lines

Line = dict[str, Any]
MEASURES = {
    "forward_seconds": "forward, seconds",
    "seconds": "both, seconds",
    "forward_bytes": "forward, MB",
    "bytes": "both, MB",
}


def least_time(call: Callable[[], None], enough: float) -> float:
    """Processor seconds of the fastest of the calls that fit into `enough` seconds; two at least, one if it is slow."""
    times: list[float] = []
    while not times or (len(times) < 2 and times[0] < enough) or sum(times) < enough:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measure(run: Line, options: argparse.Namespace) -> Line:
    """In a process of its own: one layer, one length."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    allow(options.memory + 1)
    keep_freed_memory()
    layer = KINDS[run["kind"]](Sizes(**run["sizes"]))

    def forward(x: torch.Tensor) -> None:
        with torch.no_grad():
            layer(x)

    def both(x: torch.Tensor) -> None:
        x.grad = None
        layer(x).sum().backward()

    # A short pass first: loading libraries and making the gradients of the weights are not to be measured.
    both(torch.randn(1, 2 * options.window, options.width, requires_grad=True))
    x = torch.randn(1, run["length"], options.width, requires_grad=True)
    before = peak_bytes()
    found = {"forward_seconds": least_time(lambda: forward(x), options.enough), "forward_bytes": peak_bytes() - before}
    return found | {"seconds": least_time(lambda: both(x), options.enough), "bytes": peak_bytes() - before}


def in_a_process(run: Line, options: argparse.Namespace) -> Line:
    sizes = [f"--{name}={value}" for name, value in run["sizes"].items()]
    limits = [f"--memory={options.memory}", f"--enough={options.enough}"]
    command = [sys.executable, __file__, *sizes, *limits, "--one", run["kind"], str(run["length"])]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        lines = result.stderr.splitlines() or ["stopped"]
        if not ran_out(result.stderr):
            raise SystemExit(f"{run['kind']} at {run['length']}: {lines[-1]}")
        return {"skipped": f"more than {options.memory:g} GB"}
    found: Line = json.loads(result.stdout)
    return found


def expected(lines: list[Line], kind: str, length: int, measure: str) -> float:
    """By the line through the last two lengths; one length alone is taken to grow with the square."""
    known = sorted((line["length"], line[measure]) for line in lines if line["kind"] == kind and measure in line)
    if not known:
        return 0.0
    slope = fitted(known[-2:]) if len(known) > 1 else 2.0
    at, newest = float(known[-1][0]), float(known[-1][1])
    growth: float = (length / at) ** max(slope, 1.0)
    return newest * growth


def fitted(points: list[tuple[int, float]]) -> float:
    """The slope of log y against log x."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(max(y, 1e-9)) for _, y in points]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / across if across else math.nan


def slope(lines: list[Line], kind: str, measure: str) -> float:
    """Over the longer half of the lengths that were measured."""
    points = sorted((line["length"], line[measure]) for line in lines if line["kind"] == kind and measure in line)
    return fitted(points[len(points) // 2 :]) if len(points) > 3 else math.nan


def table(lines: list[Line], measure: str, title: str, kinds: list[str], lengths: list[int]) -> str:
    """Markdown: a row a kind, a column a length, the slope at the end."""
    rows = [f"| {title} | " + " | ".join(f"{n:,}" for n in lengths) + " | slope |"]
    rows.append("|---|" + "---:|" * (len(lengths) + 1))
    for kind in kinds:
        cells = []
        for length in lengths:
            value = next(
                (line.get(measure) for line in lines if (line["kind"], line["length"]) == (kind, length)), None
            )
            cells.append("" if value is None else f"{value / 1e6:.0f}" if "bytes" in measure else f"{value:.3g}")
        steep = slope(lines, kind, measure)
        rows.append(f"| {kind} | " + " | ".join(cells) + f" | {'' if math.isnan(steep) else f'{steep:.2f}'} |")
    return "\n".join(rows)


def rivals(lines: list[Line], lengths: list[int]) -> str:
    """How many times longer a peer takes than ours."""
    seconds = {(line["kind"], line["length"]): line["seconds"] for line in lines if "seconds" in line}
    rows = ["| times as long, both | " + " | ".join(f"{n:,}" for n in lengths) + " |", "|---|" + "---:|" * len(lengths)]
    for peer, own in RIVALS.items():
        pairs = [(seconds.get((peer, n)), seconds.get((own, n))) for n in lengths]
        if any(theirs and mine for theirs, mine in pairs):
            cells = [f"{theirs / mine:.1f}" if theirs and mine else "" for theirs, mine in pairs]
            rows.append(f"| {peer} / {own} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def pictures(lines: list[Line], kinds: list[str], folder: Path) -> None:
    """Forward and backward of every kind against the length."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, measure, unit in (("seconds", "seconds", 1.0), ("megabytes", "bytes", 1e6)):
        points = {
            kind: [
                (line["length"], line[measure] / unit) for line in lines if line["kind"] == kind and line.get(measure)
            ]
            for kind in kinds
        }
        drawn = draw_lines(
            {kind: line for kind, line in points.items() if line},
            f"One layer, forward and backward: {name} against the length",
            "length n",
            name,
        )
        (folder / f"attention_{name}.svg").write_text(drawn, encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512 << step for step in range(8)])
    parser.add_argument("--width", type=int, default=256, help="of the model")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--window", type=int, default=128, help="keys on each side of a query in a window")
    parser.add_argument("--chunk", type=int, default=64, help="positions in a chunk of LSH")
    parser.add_argument("--rounds", type=int, default=4, help="of LSH")
    parser.add_argument("--memory", type=float, default=8.0, help="gigabytes that a measurement may take")
    parser.add_argument("--seconds-each", type=float, default=60.0, help="processor time that one pass may take")
    parser.add_argument("--seconds", type=float, default=1800.0, help="start nothing new after so long")
    parser.add_argument("--enough", type=float, default=1.0, help="seconds over which a pass is repeated")
    parser.add_argument("--out", type=Path, default=Path("attention_scaling.jsonl"))
    parser.add_argument("--pictures", type=Path, help="folder for attention_seconds.svg and attention_megabytes.svg")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "LENGTH"), help="one measurement, in this process")
    return parser.parse_args()


def main() -> None:
    options = parse()
    sizes = asdict(Sizes(options.width, options.heads, options.window, options.chunk, options.rounds))
    if options.one:
        run = {"kind": options.one[0], "length": int(options.one[1]), "sizes": sizes}
        print(json.dumps(measure(run, options)))
        return
    reporter, until = default_reporter(), time.monotonic() + options.seconds
    lacking = {kind: package for kind in options.kinds if (package := missing(kind))}
    for kind, package in lacking.items():
        reporter.say(f"left out: {kind}, because {package} is not installed")
    kinds = [kind for kind in options.kinds if kind not in lacking]
    wanted = [{"kind": kind, "length": n, "sizes": sizes} for n in sorted(options.lengths) for kind in kinds]
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    known = [json.loads(line) for line in text.splitlines()]
    done = [line for line in known if any(run.items() <= line.items() for run in wanted)]
    count = reporter.counting("measurements")
    for number, run in enumerate(wanted):
        count(number, len(wanted))
        if any(run.items() <= line.items() for line in done):
            continue
        if time.monotonic() > until:
            reporter.say(f"the time is over after {number} of {len(wanted)}; call it again for the rest")
            break
        kind, length = str(run["kind"]), int(str(run["length"]))
        memory, seconds = (expected(done, kind, length, name) for name in ("bytes", "seconds"))
        if any(line["kind"] == kind and "skipped" in line for line in done) or memory > options.memory * 1e9:
            found: Line = {"skipped": f"more than {options.memory:g} GB"}
        elif seconds > options.seconds_each:
            found = {"left_out": f"about {seconds:.0f} s"}
        else:
            found = in_a_process(run, options)
        if "left_out" not in found:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run | found) + "\n")
        done.append(run | found)
        told = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else str(value) for name, value in found.items()
        )
        reporter.say(f"{kind}, {length:,}: {told}")
    reporter.close()
    tables = [table(done, name, title, kinds, sorted(options.lengths)) for name, title in MEASURES.items()]
    print("\n\n".join([*tables, rivals(done, sorted(options.lengths))]))
    if options.pictures and done:
        pictures(done, kinds, options.pictures)


if __name__ == "__main__":
    main()
