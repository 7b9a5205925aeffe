"""Greedy search with drafts beside greedy search: one text at a time, one thread, the same engine, turn by turn.

    python benchmarks/lossless.py MODEL --src FILE [--draft jacobi own DIR ...] [--texts 200] [--repeats 3]

For each drafter: milliseconds of a text without and with drafts, their ratio, passes of a text, tokens of a pass (END
counted), and how many outputs differ, which must be none. All texts are decoded `--repeats` times, by both in turn, and
the least time of each text counts, so that other programs on the machine disturb little.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.decoding.drafting import DraftLike
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.translation import Translation
from qkv.decoding.translator import Translator
from qkv.kernels.threads import using_threads


@dataclass(frozen=True)
class Row:
    """What one drafter gave, a text."""

    draft: str
    greedy_ms: float
    drafted_ms: float
    passes: float
    tokens: float
    different: int

    @property
    def ratio(self) -> float:
        return self.greedy_ms / self.drafted_ms

    def told(self) -> str:
        per_pass = self.tokens / self.passes
        return (
            f"{self.draft:24} {self.greedy_ms:8.2f} {self.drafted_ms:8.2f} {self.ratio:6.2f} {self.passes:7.2f} "
            f"{per_pass:12.2f} {self.different:10}"
        )


HEADER = f"{'draft':24} {'greedy':>8} {'drafted':>8} {'ratio':>6} {'passes':>7} {'tokens/pass':>12} {'different':>10}"


def measure(model: Path, draft: DraftLike, texts: Sequence[str], repeats: int = 3) -> Row:
    """Greedy search without and with `draft` on each text alone, by one thread."""
    search = GreedyConfig()
    plain = Translator(model, "torch", search, workers=1, draft=None)
    drafted = Translator(model, "torch", search, workers=1, draft=draft)
    with using_threads(1):
        for translator in (plain, drafted):
            translator.translate([texts[0]])
        rounds = [[[_timed(each, text) for each in (plain, drafted)] for text in texts] for _ in range(repeats)]
    seconds = [sum(min(round[at][who][0] for round in rounds) for at in range(len(texts))) for who in (0, 1)]
    wanted, found = ([turn[who][1] for turn in rounds[-1]] for who in (0, 1))
    return Row(
        draft=str(draft),
        greedy_ms=1e3 * seconds[0] / len(texts),
        drafted_ms=1e3 * seconds[1] / len(texts),
        passes=sum(one.passes or 0 for one in found) / len(texts),
        tokens=sum(len(one.token_scores) for one in found) / len(texts),
        different=sum(one.tokens != other.tokens for one, other in zip(wanted, found, strict=True)),
    )


def _timed(translator: Translator, text: str) -> tuple[float, Translation]:
    began = time.perf_counter()
    (found,) = translator.translate([text])
    return time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True, help="texts, one a line; of a table the first column")
    parser.add_argument("--draft", nargs="+", default=["auto"], help="words or folders, as qkv translate --draft")
    parser.add_argument("--texts", type=int, default=200, help="so many, evenly spread")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    lines = [line.split("\t")[0] for line in options.src.read_text(encoding="utf-8").splitlines()]
    count = min(options.texts, len(lines))
    texts = [lines[number * len(lines) // count] for number in range(count)]
    print(HEADER)
    for draft in options.draft:
        print(measure(options.model, draft, texts, options.repeats).told(), flush=True)


if __name__ == "__main__":
    main()
