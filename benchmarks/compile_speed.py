"""What `training.compile` gains: updates on sentences of Multi30k with and without it, in turns, in one process.

    python benchmarks/compile_speed.py data/multi30k [--what layers] [--device cpu] [--batches 8]

Prints processor seconds (seconds by the clock on an accelerator) of an update, the median of all turns, and for each
way the seconds of the first turn, which compiles, the graphs that were compiled and the shapes of its batches. `exact`
lengths are those of the sentences; training pads them to a few lengths (`training/step/buckets.py`). The model is the
preset `tiny` with dropout; words are hashed to 8,000 ids, so no tokenizer is trained.
"""

import argparse
import statistics
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from qkv.core.devices import CPU, choose_device
from qkv.data.batch import Batch, collate
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.special import NAMES, SPECIAL
from qkv.training.optimizers import AdamWConfig
from qkv.training.step.buckets import with_few_lengths
from qkv.training.step.compiled import Compile, compile_model
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients

VOCAB = 8000
TURNS = 3


def ids(line: str) -> list[int]:
    return [len(NAMES) + zlib.crc32(word.encode()) % (VOCAB - len(NAMES)) for word in line.split()]


def batches(root: Path, count: int, tokens: int) -> list[Batch]:
    """Batches of about so many target tokens, of sentences of about the same length."""
    src, tgt = ((root / f"train.{side}").read_text().splitlines()[:20_000] for side in ("en", "de"))
    pairs = sorted(zip(map(ids, src), map(ids, tgt), strict=True), key=lambda pair: (len(pair[1]), len(pair[0])))
    made = []
    for number in range(count):
        first = (2 * number + 1) * len(pairs) // (2 * count)
        rows = pairs[first : first + max(1, tokens // (len(pairs[first][1]) + 1))]
        src_ids, tgt_ids = map(list, zip(*rows, strict=True))
        made.append(collate(src_ids, tgt_ids, SPECIAL, SPECIAL, range(len(rows))))
    return made


def learner(what: Compile, device: torch.device) -> Callable[[Batch], None]:
    torch.manual_seed(1)
    model = build_model(TransformerConfig(preset="tiny"), VOCAB, VOCAB, SPECIAL.pad).to(device).train()
    gradient, optimizer = FlatGradient(model), AdamWConfig().build(model)
    objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    compile_model(model, what)

    def learn(batch: Batch) -> None:
        gradient.clear()
        sums = add_gradients(Task(model, objective, 1, Precision("fp32", device)), [batch.to(device)], device)
        norm, weight = torch.stack([gradient.norm().to(sums), sums[2]]).tolist()
        gradient.finish(norm, weight, 1.0)
        optimizer.step(1e-4)

    return learn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--what", default="layers", choices=["layers", "all"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1000)
    given = parser.parse_args()
    device = choose_device(given.device)
    clock = time.process_time if device == CPU else time.perf_counter
    made = batches(given.root, given.batches, given.tokens)
    padded = [batch.each(with_few_lengths, batch.examples) for batch in made]
    ways = {"off": made, f"{given.what}, exact": made, given.what: padded}
    learners = {name: learner("off" if name == "off" else given.what, device) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(1 + TURNS):
        for name, learn in learners.items():
            before, graphs = clock(), counters["stats"]["unique_graphs"]
            for batch in ways[name]:
                began = clock()
                learn(batch)
                if turn:
                    seconds[name].append(clock() - began)
            if not turn:
                new = counters["stats"]["unique_graphs"] - graphs
                lengths = {(batch.src.shape[1], batch.tgt_in.shape[1]) for batch in ways[name]}
                print(f"{name}: first turn {clock() - before:.1f} s, {new} graphs, {len(lengths)} lengths", flush=True)
    plain = statistics.median(seconds["off"])
    for name, own in seconds.items():
        median = statistics.median(own)
        print(f"{name}: {1000 * median:.0f} ms an update (median of {len(own)}), {median / plain:.2f} of off")


if __name__ == "__main__":
    main()
