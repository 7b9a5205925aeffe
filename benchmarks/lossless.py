"""Greedy search with drafts beside greedy search: one text at a time, one thread, the same engine, turn by turn.

    python benchmarks/lossless.py MODEL --src FILE [--draft jacobi own DIR ...] [--texts 200] [--repeats 3]

For each drafter: milliseconds of a text without and with drafts, their ratio, passes of a text, tokens of a pass (END
counted), and how many outputs differ, which must be none. Each text is decoded `--repeats` times by both in turn and
the least time of each counts, so that other programs on the machine disturb little.
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
    seconds, passes, tokens, different = [0.0, 0.0], 0, 0, 0
    with using_threads(1):
        for translator in (plain, drafted):
            translator.translate(list(texts[:8]))
        for text in texts:
            turns = [[_timed(translator, text) for translator in (plain, drafted)] for _ in range(repeats)]
            seconds = [total + min(turn[who][0] for turn in turns) for who, total in enumerate(seconds)]
            without, found = turns[-1][0][1], turns[-1][1][1]
            different += without.tokens != found.tokens
            passes += found.passes or 0
            tokens += len(found.token_scores)
    greedy_ms, drafted_ms = (1e3 * total / len(texts) for total in seconds)
    return Row(str(draft), greedy_ms, drafted_ms, passes / len(texts), tokens / len(texts), different)


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
