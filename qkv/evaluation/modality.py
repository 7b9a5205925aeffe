"""The modality of parallel texts: how many translations a word has (Zhou, Neubig and Gu 2020).

H(y | x) = - sum over y of p(y | x) log2 p(y | x) is what is not known of the target word when the source word is; p
counts the links of a word alignment. A decoder whose words do not see each other must choose among these ways at
every place by itself, and mixes them: the lower the entropy, the easier its task.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from qkv.core.errors import DataError
from qkv.text import TokenizerPair

IdArray = NDArray[np.int64]
Floats = NDArray[np.float64]
IdPair = tuple[Sequence[int], Sequence[int]]
"""A source and a target as the numbers of their words, from 0 on; both have words."""
EMPTY = -1
"""The number of the empty word."""


class AlignmentLinks(NamedTuple):
    """Words that belong together: target word `tgt[n]` comes from source word `src[n]`, EMPTY if from none."""

    src: IdArray
    tgt: IdArray


@dataclass(frozen=True)
class Candidates:
    """Every link that could be: each target word of each pair with each word of its source, one after another."""

    links: AlignmentLinks
    start: IdArray
    """Where the links of each target word begin."""
    word: IdArray
    """The target word, counted over all pairs, of each link."""
    kind: IdArray
    """The number of the link's (source word, target word) among all different ones."""
    src_of_kind: IdArray
    """The source word of each kind, EMPTY + 1 = 0 for the empty word."""


def candidates(pairs: Sequence[IdPair]) -> Candidates:
    # The empty word stands last: of equals the first is taken, and a real word shall be first.
    sources = [np.array([*src, EMPTY], dtype=np.int64) for src, _ in pairs]
    src = np.concatenate([np.tile(own, len(tgt)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    tgt = np.concatenate([np.repeat(tgt, len(own)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    sizes = np.concatenate([np.full(len(tgt), len(own)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    width = int(tgt.max()) + 1
    kinds, kind = np.unique((src - EMPTY) * width + tgt, return_inverse=True)
    return Candidates(
        AlignmentLinks(src, tgt), sizes.cumsum() - sizes, np.repeat(np.arange(len(sizes)), sizes), kind, kinds // width
    )


def fit(given: Candidates, rounds: int) -> list[float]:
    """Mean log-likelihood of a target word, up to a constant, before each round of EM and after the last."""
    return _em(given, rounds)[1]


def align(given: Candidates, rounds: int = 5) -> AlignmentLinks:
    """The most probable link of each target word, of equals the one of the first source word."""
    weight = _em(given, rounds)[0][given.kind]
    best = weight == np.maximum.reduceat(weight, given.start)[given.word]
    places = np.flatnonzero(best)
    first = places[np.unique(given.word[places], return_index=True)[1]]
    return AlignmentLinks(given.links.src[first], given.links.tgt[first])


def _em(given: Candidates, rounds: int) -> tuple[Floats, list[float]]:
    """t of each kind of link, and the likelihoods on the way."""
    t: Floats = np.ones(len(given.src_of_kind)) / (given.links.tgt.max() + 1)
    likelihoods = []
    for _ in range(rounds):
        weight = t[given.kind]
        total = np.add.reduceat(weight, given.start)
        likelihoods.append(float(np.log(total).mean()))
        counts = np.bincount(given.kind, weight / total[given.word])
        t = counts / np.bincount(given.src_of_kind, counts)[given.src_of_kind]
    likelihoods.append(float(np.log(np.add.reduceat(t[given.kind], given.start)).mean()))
    return t, likelihoods


T = TypeVar("T")
Words = Callable[[str], Sequence[str | int]]
"""A text as words, or as the numbers of its tokens."""
_LETTER = "x"
"""Stands for a combining mark where words are found: to `re` a mark is no part of a word."""
LONGEST = 100
"""Words of a side; longer pairs are left out, because links grow with the product of the lengths."""


@dataclass(frozen=True)
class Modality:
    """In bits."""

    pairs: int
    left_out: int
    """Pairs that are empty or too long."""
    src_words: int
    """Different source words."""
    aligned_src_words: int
    """Those of them that a target word is aligned with; the entropies are theirs."""
    mean_entropy: float
    """C: the mean of H(y | x) over the different source words x that are aligned."""
    entropy: float
    """The same with each x as often as it occurs: H(Y | X) of a link."""
    perplexity: float
    """2 ^ entropy: among so many words, equally likely, one would have to choose."""
    unaligned: float
    """Share of target words that come from no source word."""

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def spread_texts(texts: Iterable[T], total: int, wanted: int) -> Iterator[T]:
    """`wanted` of the `total` texts, evenly spread; all of them where there are no more."""
    for number, text in enumerate(texts):
        if total <= wanted or number * wanted // total != (number - 1) * wanted // total:
            yield text


def measure(pairs: Iterable[tuple[str, str]], src_words: Words, tgt_words: Words, rounds: int = 5) -> Modality:
    """Of parallel texts."""
    src_ids: dict[str | int, int] = {}
    tgt_ids: dict[str | int, int] = {}
    numbered: list[IdPair] = []
    left_out = 0
    for src, tgt in pairs:
        both = src_words(src), tgt_words(tgt)
        if not all(0 < len(words) <= LONGEST for words in both):
            left_out += 1
            continue
        numbered.append(
            (
                [src_ids.setdefault(word, len(src_ids)) for word in both[0]],
                [tgt_ids.setdefault(word, len(tgt_ids)) for word in both[1]],
            )
        )
    if not numbered:
        raise DataError(f"no pair has 1 to {LONGEST} words on both sides; give parallel texts, one text a line")
    links = align(candidates(numbered), rounds)
    each, often = entropies(links)
    entropy = float((each * often).sum() / max(often.sum(), 1))
    return Modality(
        pairs=len(numbered),
        left_out=left_out,
        src_words=len(src_ids),
        aligned_src_words=len(each),
        mean_entropy=float(each.mean()) if len(each) else 0.0,
        entropy=entropy,
        perplexity=2**entropy,
        unaligned=float((links.src == EMPTY).mean()),
    )


def entropies(links: AlignmentLinks) -> tuple[Floats, Floats]:
    """H(y | x) in bits of each source word that has links, and how many it has."""
    real = links.src != EMPTY
    both, joint = np.unique(np.stack([links.src[real], links.tgt[real]]), axis=1, return_counts=True)
    words, place = np.unique(both[0], return_inverse=True)
    often = np.bincount(place, joint, len(words)).astype(np.float64)
    p = joint / often[place]
    return np.bincount(place, -p * np.log2(p), len(words)).astype(np.float64), often


def plain_words(text: str) -> list[str]:
    """Words and punctuation marks in lower case. An accent belongs to its letter, also where it is a character of its
    own, as in IPA and in the scripts of India.
    """
    lower = text.lower()
    marked = "".join(_LETTER if unicodedata.category(c).startswith("M") else c for c in lower)
    return [lower[match.start() : match.end()] for match in re.finditer(r"\w+|[^\w\s]", marked)]


def token_words(tokenizers: TokenizerPair | None) -> tuple[Words, Words]:
    """What counts as a word of each side: a token, or without tokenizers what looks like a word."""
    if tokenizers is None:
        return plain_words, plain_words
    return tokenizers.src.encode, tokenizers.tgt.encode
