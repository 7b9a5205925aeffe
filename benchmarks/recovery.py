"""Whether a model finds its way back after a mistake: exact match by position, and the recovery rate.

    python benchmarks/recovery.py BASELINE [MODEL ...] --data TEST.tsv [--count 1000] [--chart OUT.svg]

TEST.tsv has a source, a tab and its target on each line. Greedy search decodes every source twice:

* freely: how often is the token at position t the right one, for the positions 1-4, 5-8 and so on;
* after one forced mistake: the output begins with the gold tokens up to a random position, where another token stands.
  The output has recovered if everything after that token is right. The recovery rate is the share of such outputs.

The forced mistakes are the same for all models. p is that of an exact McNemar test against BASELINE: of the items that
only one of the two models recovers, as many would be each one's if there were no difference.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING

from qkv import Translator
from qkv.core.figures import SERIES, standalone_chart
from qkv.search.greedy import GreedyConfig
from qkv.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPAN = 4
"""Positions of one column."""


@dataclass(frozen=True)
class Item:
    """A source, its target, and a mistake at position `at` of the target."""

    src: str
    gold: list[str]
    at: int
    prefix: str


@dataclass(frozen=True)
class Results:
    """What one model did, item by item."""

    outputs: list[list[str]]
    recovered: list[bool]


def read_items(path: Path, tokenizer: Tokenizer, count: int, seed: int) -> list[Item]:
    """The first `count` pairs whose target has two tokens at least, each with a random mistake that is not the last."""
    source = random.Random(seed)
    pairs = [line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines()]
    encoded = [(src, tokenizer.encode(tgt)) for src, tgt in pairs]
    vocabulary = sorted({token for _, ids in encoded for token in ids})
    items = []
    for src, ids in encoded:
        if len(ids) >= 2:
            at = source.randrange(len(ids) - 1)
            wrong = source.choice([token for token in vocabulary if token != ids[at]])
            items.append(Item(src, tokenizer.tokens(ids), at, tokenizer.decode([*ids[:at], wrong])))
    return items[:count]


def measure(model: Path, items: Sequence[Item]) -> Results:
    translator = Translator(model, "torch", GreedyConfig())
    sources = [item.src for item in items]
    free = translator.translate(sources)
    forced = translator.translate(sources, prefixes=[item.prefix for item in items])
    recovered = [
        found.tokens[item.at + 1 :] == item.gold[item.at + 1 :] for found, item in zip(forced, items, strict=True)
    ]
    return Results([found.tokens for found in free], recovered)


def right_by_position(outputs: Sequence[Sequence[str]], items: Sequence[Item]) -> list[float]:
    """For every `SPAN` positions, the share of gold tokens that the output has in the same place."""
    longest = max(len(item.gold) for item in items)
    right, all_of_them = [0] * longest, [0] * longest
    for output, item in zip(outputs, items, strict=True):
        for t, token in enumerate(item.gold):
            all_of_them[t] += 1
            right[t] += t < len(output) and output[t] == token
    starts = range(0, longest, SPAN)
    return [sum(right[t : t + SPAN]) / sum(all_of_them[t : t + SPAN]) for t in starts]


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """The two-sided probability of a split at least as uneven among the items on which the two differ."""
    only_a = sum(x and not y for x, y in zip(a, b, strict=True))
    only_b = sum(y and not x for x, y in zip(a, b, strict=True))
    n = only_a + only_b
    return min(1.0, 2 * sum(comb(n, k) for k in range(min(only_a, only_b) + 1)) / (1 << n))


def bars(rates: dict[str, float]) -> str:
    """The recovery rate of each model in percent, as an SVG."""

    def paint(axes: "Axes") -> None:
        drawn = axes.barh(list(rates), list(rates.values()), color=SERIES[0])
        axes.bar_label(drawn, fmt="%.1f", padding=4)
        axes.invert_yaxis()
        axes.set(xlim=(0, 100), xlabel="outputs that recover, %")

    return standalone_chart(paint, 560, 60 + 40 * len(rates), "After one forced mistake")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chart", type=Path)
    arguments = parser.parse_args()
    tokenizer = Translator(arguments.models[0], "torch").models.tokenizers.tgt
    items = read_items(arguments.data, tokenizer, arguments.count, arguments.seed)
    spans = [f"{first + 1}-{first + SPAN}" for first in range(0, max(len(item.gold) for item in items), SPAN)]
    print(f"{len(items):,} outputs, each with one forced mistake\n")
    print(f"| model | exact | {' | '.join(spans)} | recovery | p |\n|{'---|' * (len(spans) + 4)}")
    baseline: Results | None = None
    rates = {}
    for model in arguments.models:
        results = measure(model, items)
        exact = sum(output == item.gold for output, item in zip(results.outputs, items, strict=True)) / len(items)
        shares = [exact, *right_by_position(results.outputs, items), sum(results.recovered) / len(items)]
        p = "" if baseline is None else f"{mcnemar(baseline.recovered, results.recovered):.2g}"
        print(f"| {model.name} | {' | '.join(f'{100 * share:.1f}' for share in shares)} | {p} |", flush=True)
        rates[model.name] = 100 * shares[-1]
        baseline = baseline or results
    if arguments.chart:
        arguments.chart.write_text(bars(rates), encoding="utf-8")


if __name__ == "__main__":
    main()
