"""Greedy search with drafts beside greedy search: one text at a time, one thread, the same engine, turn by turn.

    python benchmarks/speculative.py MODEL --src FILE [--draft jacobi own DIR ...] [--oracle] [--wrong] [--texts 200]
        [--repeats 3]

For each drafter: milliseconds of a text without and with drafts, their ratio, passes of a text, tokens of a pass (END
counted), and how many outputs differ, which must be none. All texts are decoded `--repeats` times, by both in turn, and
the least time of each text counts, so that other programs on the machine disturb little.

--oracle adds the best drafts there can be, made by one who was told the output of greedy search beforehand, and --wrong
the worst, of which no token is ever right.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.kernels.threads import using_threads
from qkv.models.saved.folder import SavedModel, load_model
from qkv.models.saved.locate import locate_model
from qkv.search.base import Constraints
from qkv.search.greedy import GreedyConfig
from qkv.search.speculative.drafters.base import Checked, DrafterConfig, Drafts, DraftSources, drafters
from qkv.search.speculative.drafting import DraftLike
from qkv.text.special import NAMES, SPECIAL
from qkv.translate.output import Translation
from qkv.translate.translator import Translator

Ids = tuple[int, ...]


@drafters.register
class ToldConfig(DrafterConfig):
    """Drafts what it was told about each source, at no cost."""

    kind: Literal["told"] = "told"
    outputs: dict[Ids, list[int]]
    """The tokens of a source, without END -> what is drafted for it."""
    block: int = 16

    def build(self, saved: SavedModel) -> "Told":
        return Told(self.outputs)


class Told:
    """Knows the sources by heart."""

    def __init__(self, outputs: Mapping[Ids, Sequence[int]]) -> None:
        self.outputs = outputs

    def begin(self, sources: DraftSources) -> Drafts:
        return ToldDrafts([self.outputs[tuple(ids)] for ids in sources.ids()])


class ToldDrafts:
    """Place by place, whatever stands before."""

    def __init__(self, outputs: Sequence[Sequence[int]]) -> None:
        self.outputs = outputs

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        return self.outputs[sentence][len(kept) : len(kept) + count]

    def learn(self, checked: Checked) -> None:
        pass


def greedy_outputs(model: Path, texts: Sequence[str]) -> dict[Ids, list[int]]:
    """What greedy search says to each text, END included."""
    saved = load_model(locate_model(model))
    engine, request = TorchEngine([saved.model]), DecodeRequest(GreedyConfig(), 1, [Constraints()])
    found = {}
    for ids in saved.tokenizers.src.encode_batch(texts):
        ((best,),) = engine.decode([[*ids, SPECIAL.eos]], request)
        found[tuple(ids)] = [*best.tokens, SPECIAL.eos]
    return found


def always_wrong(outputs: Mapping[Ids, Sequence[int]]) -> dict[Ids, list[int]]:
    """At each place a word that greedy search does not say there."""
    word, other = len(NAMES), len(NAMES) + 1
    return {ids: [other if token == word else word for token in tokens] for ids, tokens in outputs.items()}


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


def measure(model: Path, name: str, draft: DraftLike, texts: Sequence[str], repeats: int = 3) -> Row:
    """Greedy search without and with `draft`, called `name`, on each text alone, by one thread."""
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
        draft=name,
        greedy_ms=1e3 * seconds[0] / len(texts),
        drafted_ms=1e3 * seconds[1] / len(texts),
        passes=sum(one.passes or len(one.token_scores) for one in found) / len(texts),  # without drafts one a token
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
    parser.add_argument("--oracle", action="store_true", help="also drafts that are never wrong and cost nothing")
    parser.add_argument("--wrong", action="store_true", help="also drafts that are always wrong and cost nothing")
    parser.add_argument("--texts", type=int, default=200, help="so many, evenly spread")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    lines = [line.split("\t")[0] for line in options.src.read_text(encoding="utf-8").splitlines()]
    count = min(options.texts, len(lines))
    texts = [lines[number * len(lines) // count] for number in range(count)]
    drafts: dict[str, DraftLike] = {draft: draft for draft in options.draft}
    if options.oracle or options.wrong:
        outputs = greedy_outputs(options.model, texts)
        drafts |= {"oracle": ToldConfig(outputs=outputs)} if options.oracle else {}
        drafts |= {"wrong": ToldConfig(outputs=always_wrong(outputs))} if options.wrong else {}
    print(HEADER)
    for name, draft in drafts.items():
        print(measure(options.model, name, draft, texts, options.repeats).told(), flush=True)


if __name__ == "__main__":
    main()
