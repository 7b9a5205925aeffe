"""Everything behind `qkv data check`: sizes, lengths, unknown tokens, duplicates, overlaps, padding, samples."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from qkv.data.build import CountProgress
from qkv.data.config import BatchConfig
from qkv.data.length_limit import LengthLimit, fit_length_limit
from qkv.data.order import Budget, epoch_plan
from qkv.data.overlap import Overlap, overlap_with_train
from qkv.data.parts import text_hash
from qkv.data.store import LengthArray, PairStore, StoreReport
from qkv.text.folder import TokenizerPair

QUANTILES = {"min": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "99%": 0.99, "max": 1.0}
SAMPLES = 5


@dataclass(frozen=True)
class PartReport:
    """Statistics of one part. Lengths are in tokens, END included."""

    store: StoreReport
    src_lengths: dict[str, int]
    tgt_lengths: dict[str, int]
    src_unknown: float
    """Unknown tokens as a fraction of all source tokens, end tokens left out."""
    tgt_unknown: float
    duplicates: int
    """Exact duplicates of an earlier pair."""
    copies: int
    """Pairs whose target is their source."""


@dataclass(frozen=True)
class Sample:
    """A pair of train as the model will see it."""

    pair: int
    src: list[str]
    tgt: list[str]


@dataclass(frozen=True)
class DataReport:
    """What `check_data` found."""

    parts: dict[str, PartReport]
    overlaps: dict[str, Overlap]
    """By the name of the part that is compared with train."""
    batches: int
    """Batches of an epoch of train."""
    padding: float
    """The fraction of their positions that is padding."""
    samples: list[Sample]
    length_limit: LengthLimit
    """The longest outputs of a model that learns from train."""
    advice: list[str] = field(default_factory=list)
    """Advice, one sentence each."""

    def with_advice(self, sentences: list[str]) -> "DataReport":
        """The same with advice, one sentence each."""
        return replace(self, advice=sentences)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"length_limit": self.length_limit.model_dump()}

    def render(self) -> str:
        """For people."""
        lines = [line for name, part in self.parts.items() for line in _render_part(name, part)]
        for name, overlap in self.overlaps.items():
            shared = overlap.line(name, "pairs")
            lines.append(f"{shared}, {overlap.sources:,} with the same source")
        limit = self.length_limit
        lines.append(f"outputs: at most {limit.factor:g} x source + {limit.extra} tokens, learnt from train")
        return "\n".join([*lines, *self.closing_lines()]) + "\n"

    def closing_lines(self) -> list[str]:
        """Batches, samples and advice."""
        lines = [f"batches: {self.batches:,} an epoch, {self.padding:.1%} padding", "", "samples of train, as tokens:"]
        for sample in self.samples:
            lines += [f"  {sample.pair}", f"    src {' '.join(sample.src)}", f"    tgt {' '.join(sample.tgt)}"]
        return [*lines, *advice_lines(self.advice)]


def check_data(
    stores: Mapping[str, PairStore],
    tokenizers: TokenizerPair,
    batch: BatchConfig,
    seed: int = 0,
    progress: CountProgress = lambda done, total: None,
) -> DataReport:
    """Look at prepared data: `train`, and maybe `dev` and `test`. Duplicates are found by 64-bit hashes."""
    train = stores["train"]
    # Every part is read once, and train once more for each part that is compared with it.
    total, done = sum(map(len, stores.values())) + (len(stores) - 1) * len(train), 0

    def count(now: int, _: int | None) -> None:
        progress(done + now, total)

    parts, overlaps = {}, {}
    for name, store in stores.items():
        parts[name] = _check_part(store, count)
        done += len(store)
        if store is not train:
            overlaps[name] = overlap_with_train(store, train, count)
            done += len(train)
    budget = Budget(batch.tokens, batch.pairs)
    plan = epoch_plan(train.src_len, train.tgt_len, train.ranges, seed, 0, budget)
    return DataReport(
        parts=parts,
        overlaps=overlaps,
        batches=len(plan),
        padding=plan.padding(train.src_len, train.tgt_len),
        samples=_samples(train, tokenizers),
        length_limit=fit_length_limit(train.src_len, train.tgt_len),
    )


def _check_part(store: PairStore, progress: CountProgress) -> PartReport:
    pairs = np.empty(len(store), np.uint64)
    copies = done = 0
    for chunk in store.chunks():
        for src, tgt in chunk:
            # A text may hold a tab or a newline, but never NUL, which therefore separates the two sides.
            pairs[done] = text_hash(f"{src}\0{tgt}")
            copies += src == tgt
            done += 1
        progress(done, len(store))
    counts = store.report
    return PartReport(
        store=counts,
        src_lengths=quantiles(store.src_len),
        tgt_lengths=quantiles(store.tgt_len),
        src_unknown=counts.src_unknown / (counts.src_tokens - counts.kept),
        tgt_unknown=counts.tgt_unknown / (counts.tgt_tokens - counts.kept),
        duplicates=len(pairs) - len(np.unique(pairs)),
        copies=copies,
    )


def advice_lines(advice: Sequence[str]) -> list[str]:
    """The end of a report."""
    return ["", "advice:", *(f"  {sentence}" for sentence in advice)] if advice else []


def quantiles(lengths: LengthArray) -> dict[str, int]:
    """Of lengths, by name."""
    values = np.quantile(lengths, list(QUANTILES.values()), method="lower")
    return {name: int(value) for name, value in zip(QUANTILES, values, strict=True)}


def _samples(store: PairStore, tokenizers: TokenizerPair) -> list[Sample]:
    """Pairs at even distances through the store."""
    places = np.unique(np.linspace(0, len(store) - 1, SAMPLES).astype(np.int64))
    src, tgt = tokenizers.src, tokenizers.tgt
    return [
        Sample(
            pair=int(place),
            src=src.tokens([*src.encode(src_text), src.special.eos]),
            tgt=tgt.tokens([*tgt.encode(tgt_text), tgt.special.eos]),
        )
        for place, (src_text, tgt_text) in zip(places, store.read(places), strict=True)
    ]


def heading_lines(name: str, part: PartReport) -> list[str]:
    """What became of the pairs of a part."""
    heading, *dropped = part.store.lines()
    return [f"{name}: {heading}", *(f"  {line}" for line in dropped)]


def spread_line(what: str, lengths: Mapping[str, int], unknown: float) -> str:
    """Quantiles of lengths and the share of unknown tokens."""
    spread = ", ".join(f"{quantile} {value}" for quantile, value in lengths.items())
    return f"  {what}: {spread}; {unknown:.2%} unknown"


def _render_part(name: str, part: PartReport) -> list[str]:
    return [
        *heading_lines(name, part),
        spread_line("src tokens", part.src_lengths, part.src_unknown),
        spread_line("tgt tokens", part.tgt_lengths, part.tgt_unknown),
        f"  {part.duplicates:,} exact duplicates, {part.copies:,} pairs with target = source",
        "",
    ]
