"""Profiles pairs of texts: lengths, vocabularies, and what a token of each side should be."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from qkv.evaluation.metrics.default import DefaultMetrics, default_metrics
from qkv.text.normalize import mostly_unspaced
from qkv.text.reservoir import reservoir

SAMPLE = 20_000
"""The size of the sample."""
CLOSED = 0.002
"""The share of words never seen in the other half, up to which a vocabulary is taken for complete."""
MOST_WORDS = 5_000
SHORT_WORDS, SHORT_LETTERS = 3, 20
"""Texts up to this length, at the median, are read letter by letter."""
PIECES_A_WORD = 1.4
"""Subwords for each word, about."""

Unit = Literal["char", "whitespace", "subword"]


@dataclass(frozen=True)
class Side:
    """The texts of one side, judged by a sample."""

    unit: Unit
    why: str
    """In a few words."""
    tokens: float
    """A text has, on the average and about."""
    longest: int
    """Tokens of the longest text of the sample, about."""
    vocabulary: frozenset[str]
    """The different words."""
    letters: frozenset[str]


@dataclass(frozen=True)
class Profile:
    pairs: int
    src: Side
    tgt: Side
    metrics: DefaultMetrics
    """As `qkv evaluate` would choose them."""

    @property
    def tokens(self) -> int:
        """Training tokens of both sides, about, with their end tokens."""
        return round(self.pairs * (self.src.tokens + self.tgt.tokens + 2))

    @property
    def alike(self) -> bool:
        """Whether one tokenizer fits both sides: the same unit, and mostly the same letters (or, of words, words)."""
        if self.src.unit != self.tgt.unit:
            return False
        whole = self.src.unit == "whitespace"
        one, other = (side.vocabulary if whole else side.letters for side in (self.src, self.tgt))
        return len(one & other) > 0.5 * len(one | other)


def profile_pairs(pairs: Iterable[tuple[str, str]]) -> Profile:
    """Reads all pairs, to count them, and looks at a random sample."""
    count = 0

    def counted() -> Iterator[tuple[str, str]]:
        nonlocal count
        for src, tgt in pairs:
            if src.strip() and tgt.strip():
                count += 1
                yield src, tgt

    sample = reservoir(counted(), SAMPLE)
    sources, targets = [src for src, _ in sample], [tgt for _, tgt in sample]
    metrics = default_metrics([[target] for target in targets], sources)
    return Profile(count, _side(sources), _side(targets), metrics)


def _side(texts: Sequence[str]) -> Side:
    split = [text.split() for text in texts]
    words = median(map(len, split)) if split else 0
    vocabulary = frozenset(word for text in split for word in text)
    unspaced = mostly_unspaced(texts)
    unit, why = _unit(split, words, vocabulary, unspaced)
    lengths = [len(text) for text in texts] if unit == "char" else [len(text) for text in split]
    scale = PIECES_A_WORD if unit == "subword" else 1.0
    if unit == "subword" and unspaced:
        lengths, scale = [len(text) for text in texts], 0.7
    return Side(
        unit,
        why,
        tokens=scale * sum(lengths) / max(1, len(lengths)),
        longest=round(scale * max(lengths, default=1)),
        vocabulary=vocabulary,
        letters=frozenset("".join(texts)),
    )


def _unit(split: list[list[str]], words: float, vocabulary: frozenset[str], unspaced: bool) -> tuple[Unit, str]:
    unseen = _unseen(split)
    if words > 1 and len(vocabulary) <= MOST_WORDS and unseen <= CLOSED:
        return "whitespace", f"{len(vocabulary):,} different tokens between spaces, and hardly ever a new one"
    if words <= 1 and not unspaced:
        return "char", "single words"
    if words <= SHORT_WORDS and not unspaced and median(len(" ".join(text)) for text in split) <= SHORT_LETTERS:
        return "char", "a few short words"
    return "subword", "sentences, in which new words keep coming"


def _unseen(split: list[list[str]]) -> float:
    """Of the words of every second text, the share that the others do not have."""
    known = {word for text in split[::2] for word in text}
    counts = Counter(word for text in split[1::2] for word in text)
    return sum(n for word, n in counts.items() if word not in known) / max(1, counts.total())
