"""Trained on short inputs, tested on long ones: how far does each scheme of positions reach?

    python benchmarks/length_extrapolation.py [--tasks copy reverse addition] [--schemes sinusoidal rope+randomised ...]

A small Transformer learns to copy digits, to reverse them, or to add two numbers, one character a token, from inputs
of at most --train-length characters that are made as it goes; then greedy search decodes inputs of --lengths
characters. Numbers are written with the lowest digit first, as one adds by hand. A scheme is a kind of `positions`,
or two words: a kind of `positions` + a kind of `position_offsets`. `shaw/first` and `shaw/anywhere` are `shaw` with
location-aware cross-attention that starts there, and self-attention to a few neighbours: after the first output, no
part of it sees further in a long input than in a short one.

Every result is a line of JSON in --out as soon as it is there; what the file holds already is not run again. The
tables at the end give character accuracy / whole sequences right, in percent, the mean over the seeds.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from qkv.config import validate
from qkv.core.progress import default_reporter
from qkv.data.batch import Batch, collate
from qkv.layers.position_offsets import offsets
from qkv.layers.positions import positions
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.objectives.smoothing import NoSmoothing
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import LengthLimits, SearchTask
from qkv.search.greedy import GreedySearch
from qkv.search.models import ModelSteps
from qkv.text import SPECIAL
from qkv.text.special import NAMES
from qkv.training.optimizers import AdamWConfig
from qkv.training.schedules import LinearConfig

CHARACTERS = "0123456789+"
VOCAB = len(NAMES) + len(CHARACTERS)
SCHEMES = [
    *positions.names(),
    "sinusoidal+shift",
    "sinusoidal+randomised",
    "learned+randomised",
    "rope+randomised",
    "shaw/first",
    "shaw/anywhere",
]
STARTS = ("first", "anywhere")
SPARE = 8
"""Characters beyond the right length that an output may have."""


def digits(source: random.Random, count: int) -> str:
    return "".join(source.choices(CHARACTERS[:10], k=count))


def addition(source: random.Random, length: int) -> tuple[str, str]:
    """Two numbers whose digits and the + between them are `length` characters, 3 at least."""
    first = (max(length, 3) - 1) // 2
    one, other = digits(source, first), digits(source, max(length, 3) - 1 - first)
    total = int(one[::-1]) + int(other[::-1])
    return f"{one}+{other}", str(total).rjust(len(other), "0")[::-1]


def copy(source: random.Random, length: int) -> tuple[str, str]:
    text = digits(source, length)
    return text, text


def reverse(source: random.Random, length: int) -> tuple[str, str]:
    text = digits(source, length)
    return text, text[::-1]


TASKS: dict[str, Callable[[random.Random, int], tuple[str, str]]] = {
    "copy": copy,
    "reverse": reverse,
    "addition": addition,
}


def ids(text: str) -> list[int]:
    return [len(NAMES) + CHARACTERS.index(character) for character in text]


def batch_of(pairs: list[tuple[str, str]]) -> Batch:
    src, tgt = ([ids(pair[side]) for pair in pairs] for side in range(2))
    return collate(src, tgt, SPECIAL, SPECIAL, range(len(pairs)))


def location_aware(start: str) -> dict[str, Any]:
    """Parts of a model that sees a few neighbours, and finds its place in the source by where it was before."""
    near = {"kind": "truncated", "left": 2}
    cross = {"kind": "location_aware", "filters": 8, "width": 5, "window": 4, "start": start}
    return {"encoder_attention": near, "decoder_attention": near, "cross_attention": cross}


def model_config(scheme: str, options: argparse.Namespace) -> TransformerConfig:
    """Learned and randomised positions are as many as the longest test needs."""
    most = max(*options.lengths, options.train_length) + SPARE + 2
    sizes = {"learned": {"max_length": most}, "randomised": {"max_positions": most}, "shift": {"most": most}}
    scheme, _, start = scheme.partition("/")
    kind, _, offset = scheme.partition("+")
    if kind == "learned" and offset == "shift":
        sizes["learned"] = {"max_length": most + options.train_length + 2}
        sizes["shift"] = {"most": most - options.train_length}
    settings = {
        "d_model": options.d_model,
        "d_ff": 4 * options.d_model,
        "num_heads": options.heads,
        "encoder_layers": options.layers,
        "decoder_layers": options.layers,
        "dropout": 0.0,
        "residual": "pre",
        "positions": {"kind": kind, **sizes.get(kind, {})},
        "position_offsets": {"kind": offset or "none", **sizes.get(offset, {})},
        "share_embeddings": "all",
        **(location_aware(start) if start else {}),
    }
    return validate(TransformerConfig, settings, f"the scheme {scheme}")


def longest_input(fraction: float, options: argparse.Namespace) -> int:
    """With --curriculum inputs grow from 4 characters to their full length over the first half of training."""
    if not options.curriculum:
        return int(options.train_length)
    full = int(options.train_length)
    return min(full, 4 + round(2 * fraction * (full - 4)))


def train(run: dict[str, Any], options: argparse.Namespace, tell: Callable[[float], None]) -> tuple[Transformer, int]:
    """Until --updates or --seconds are over, whichever comes first; the model, and how many updates it had."""
    torch.manual_seed(run["seed"])
    config, source = model_config(run["scheme"], options), random.Random(run["seed"])
    model = build_model(config, VOCAB, VOCAB, SPECIAL.pad)
    teacher = ObjectiveConfig(smoothing=NoSmoothing()).build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    optimizer, schedule = AdamWConfig().build(model), LinearConfig(peak=options.rate, warmup=100)
    began, update, fraction, warmed = time.monotonic(), 0, 0.0, 0.0
    while fraction < 1:
        update += 1
        longest = longest_input(fraction, options)
        pairs = [TASKS[run["task"]](source, source.randint(1, longest)) for _ in range(options.batch)]
        report = teacher.training_loss(model, batch_of(pairs), update)
        model.zero_grad()
        (report.sum / report.weight).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        warmed = fraction if update <= schedule.warmup else warmed
        optimizer.step(schedule.rate(update, fraction, config.d_model, warmed))
        fraction = max(update / options.updates, (time.monotonic() - began) / options.seconds)
        tell(min(fraction, 1.0))
    return model.eval(), update


@torch.no_grad()
def accuracy(model: Transformer, task: str, length: int, samples: int) -> tuple[float, float]:
    """(characters in their place, whole sequences right) of the same inputs for every scheme."""
    source = random.Random(f"{task} {length}")
    pairs = [TASKS[task](source, length) for _ in range(samples)]
    batch = batch_of(pairs)
    limits = [LengthLimits(len(right) + SPARE) for _, right in pairs]
    found = GreedySearch().run(ModelSteps(model), SearchTask(batch.src, batch.src_keep, SPECIAL, limits))
    characters = sequences = total = 0
    for (best, *_), (_, right) in zip(found, pairs, strict=True):
        expected, output = ids(right), list(best.tokens)
        characters += sum(one == other for one, other in zip(output, expected, strict=False))
        sequences += output == expected
        total += len(expected)
    return characters / total, sequences / samples


def runs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What is asked for; everything that decides a result is in it."""
    sizes = {
        name: getattr(options, name)
        for name in ("train_length", "updates", "seconds", "batch", "rate", "d_model", "layers", "heads", "samples")
    }
    # Results from before there was a curriculum do not name it.
    sizes |= {"curriculum": True} if options.curriculum else {}
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for scheme in options.schemes:
                yield {"task": task, "scheme": scheme, "seed": seed, "lengths": options.lengths, **sizes}


def table(lines: list[dict[str, Any]], task: str, lengths: list[int]) -> str:
    """Markdown: a row a scheme."""
    rows = [f"| {task} | " + " | ".join(map(str, lengths)) + " |", "|---|" + "---:|" * len(lengths)]
    for scheme in dict.fromkeys(line["scheme"] for line in lines if line["task"] == task):
        same = [line for line in lines if (line["task"], line["scheme"]) == (task, scheme)]
        cells = []
        for length in lengths:
            means = [
                100 * sum(line[kind][str(length)] for line in same) / len(same) for kind in ("character", "sequence")
            ]
            cells.append(" / ".join(f"{mean:.0f}" for mean in means))
        rows.append(f"| {scheme} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def scheme_name(name: str) -> str:
    scheme, slash, start = name.partition("/")
    kind, _, offset = scheme.partition("+")
    if kind not in positions.names() or (offset and offset not in offsets.names()) or (slash and start not in STARTS):
        raise argparse.ArgumentTypeError(
            f"{name} is not one of {', '.join(positions.names())}, with or without +shift or +randomised, and with or "
            f"without {' or '.join('/' + one for one in STARTS)}"
        )
    return name


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--schemes", nargs="+", type=scheme_name, default=SCHEMES, metavar="SCHEME")
    parser.add_argument("--lengths", nargs="+", type=int, default=[20, 40, 60, 80, 160, 400])
    parser.add_argument("--train-length", type=int, default=40)
    parser.add_argument("--curriculum", action="store_true", help="short inputs first")
    parser.add_argument("--updates", type=int, default=20_000, help="of one run")
    parser.add_argument("--seconds", type=float, default=180, help="of one run, whichever is over first")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=50, help="test inputs of each length")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("length_extrapolation.jsonl"))
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    wanted = list(runs(options))
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    known = [json.loads(line) for line in text.splitlines()]
    done = [line for line in known if any(run.items() <= line.items() for run in wanted)]
    todo = [run for run in wanted if not any(run.items() <= line.items() for line in known)]
    reporter = default_reporter()
    count = reporter.counting("thousandths of all runs")
    for number, run in enumerate(todo):

        def tell(part: float, before: int = number) -> None:
            count(int(1000 * (before + part)), 1000 * len(todo))

        model, updates = train(run, options, tell)
        found = {length: accuracy(model, run["task"], length, options.samples) for length in options.lengths}
        line = {**run, "done_updates": updates}
        line |= {
            kind: {str(n): pair[i] for n, pair in found.items()} for i, kind in enumerate(("character", "sequence"))
        }
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        done.append(line)
        short = ", ".join(f"{n}: {100 * pair[0]:.0f}/{100 * pair[1]:.0f}" for n, pair in found.items())
        reporter.say(f"{run['task']} {run['scheme']} seed {run['seed']}, {updates:,} updates: {short}")
    reporter.close()
    print("\n\n".join(table(done, task, options.lengths) for task in options.tasks))


if __name__ == "__main__":
    main()
