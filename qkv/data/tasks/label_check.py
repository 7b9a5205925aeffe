"""What `qkv data check` says of labelled and tagged texts: what it says of pairs, and which labels there are."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from qkv.data.build import CountProgress
from qkv.data.check import DataReport, heading_lines, spread_line
from qkv.data.overlap import Overlap
from qkv.data.store import PairStore

SHOWN = 5
"""Of many labels, the report names so many and the rarest."""


@dataclass(frozen=True)
class LabelCounts:
    """The labels of a part."""

    counts: dict[str, int]
    """How often each occurs, the most frequent first."""
    constant: float
    """The share that is right if the answer is always the label that is most frequent in train."""
    new: dict[str, int]
    """Those that train does not have."""


@dataclass(frozen=True)
class LabelReport:
    """Statistics of all parts."""

    pairs: DataReport
    """Of the texts with their labels."""
    labels: dict[str, LabelCounts]
    unit: str
    """What has a label: texts or words."""

    @property
    def overlaps(self) -> dict[str, Overlap]:
        return self.pairs.overlaps

    @property
    def advice(self) -> list[str]:
        return self.pairs.advice

    def with_advice(self, sentences: list[str]) -> "LabelReport":
        """The same with advice, one sentence each."""
        return replace(self, pairs=self.pairs.with_advice(sentences))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        pairs = self.pairs.as_dict()
        # A label is no output with a length.
        del pairs["length_limit"]
        return {**pairs, "labels": {name: asdict(own) for name, own in self.labels.items()}, "labels_of": self.unit}

    def render(self) -> str:
        """For people."""
        lines = []
        for name, part in self.pairs.parts.items():
            lines += [*heading_lines(name, part), spread_line("text tokens", part.src_lengths, part.src_unknown)]
            lines += [f"  {part.duplicates:,} exact duplicates", *self._label_lines(name), ""]
        for name, overlap in self.overlaps.items():
            lines.append(f"{overlap.line(name, 'texts')}, {overlap.sources:,} with any label")
        return "\n".join([*lines, *self.pairs.closing_lines()]) + "\n"

    def _label_lines(self, name: str) -> list[str]:
        own, always = self.labels[name], next(iter(self.labels["train"].counts))
        lines = [
            f"  {len(own.counts):,} labels of {sum(own.counts.values()):,} {self.unit}: {_shown(own.counts)}",
            f"  always {always} would be right for {own.constant:.2%} of the {self.unit}",
        ]
        if own.new:
            lines.append(f"  {len(own.new):,} labels are not in train: {_shown(own.new)}")
        return lines


def label_report(pairs: DataReport, counts: Mapping[str, Counter[str]], unit: str) -> LabelReport:
    """The report from the labels of each part."""
    train = counts["train"]
    ((always, _),) = train.most_common(1)
    labels = {
        name: LabelCounts(
            counts=dict(own.most_common()),
            constant=own[always] / own.total(),
            new={label: count for label, count in own.most_common() if label not in train},
        )
        for name, own in counts.items()
    }
    return LabelReport(pairs, labels, unit)


def count_labels(store: PairStore, labels: Callable[[str], Sequence[str]], progress: CountProgress) -> Counter[str]:
    """How often each label occurs; `labels` gives those of a target."""
    found, done = Counter[str](), 0
    for chunk in store.chunks():
        for _, tgt in chunk:
            found.update(labels(tgt))
        done += len(chunk)
        progress(done, len(store))
    return found


def _shown(counts: Mapping[str, int]) -> str:
    named = [f"{label} {count:,}" for label, count in counts.items()]
    return ", ".join(named if len(named) <= SHOWN + 1 else [*named[:SHOWN], "...", named[-1]])
