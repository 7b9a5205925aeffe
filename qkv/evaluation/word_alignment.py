"""Which word of the source a word of the target comes from: IBM model 1 (Brown 1993), fitted by EM.

p(y | x) = prod over j of 1/(I + 1) x sum over i = 0..I of t(y_j | x_i), where x_0 is the empty word. The order of the
words plays no part, and the likelihood has one maximum only, so that nothing depends on where EM begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Pair = tuple[Sequence[int], Sequence[int]]
"""A source and a target as the numbers of their words, from 0 on; both have words."""
EMPTY = -1
"""The number of the empty word."""


class Links(NamedTuple):
    """Words that belong together: target word `tgt[n]` comes from source word `src[n]`, EMPTY if from none."""

    src: Ids
    tgt: Ids


@dataclass(frozen=True)
class Candidates:
    """Every link that could be: each target word of each pair with each word of its source, one after another."""

    links: Links
    start: Ids
    """Where the links of each target word begin."""
    word: Ids
    """The target word, counted over all pairs, of each link."""
    kind: Ids
    """The number of the link's (source word, target word) among all different ones."""
    src_of_kind: Ids
    """The source word of each kind, EMPTY + 1 = 0 for the empty word."""


def candidates(pairs: Sequence[Pair]) -> Candidates:
    # The empty word stands last: of equals the first is taken, and a real word shall be first.
    sources = [np.array([*src, EMPTY], dtype=np.int64) for src, _ in pairs]
    src = np.concatenate([np.tile(own, len(tgt)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    tgt = np.concatenate([np.repeat(tgt, len(own)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    sizes = np.concatenate([np.full(len(tgt), len(own)) for own, (_, tgt) in zip(sources, pairs, strict=True)])
    width = int(tgt.max()) + 1
    kinds, kind = np.unique((src - EMPTY) * width + tgt, return_inverse=True)
    return Candidates(
        Links(src, tgt), sizes.cumsum() - sizes, np.repeat(np.arange(len(sizes)), sizes), kind, kinds // width
    )


def fit(given: Candidates, rounds: int) -> list[float]:
    """Mean log-likelihood of a target word, up to a constant, before each round of EM and after the last."""
    return _em(given, rounds)[1]


def align(given: Candidates, rounds: int = 5) -> Links:
    """The most probable link of each target word, of equals the one of the first source word."""
    weight = _em(given, rounds)[0][given.kind]
    best = weight == np.maximum.reduceat(weight, given.start)[given.word]
    places = np.flatnonzero(best)
    first = places[np.unique(given.word[places], return_index=True)[1]]
    return Links(given.links.src[first], given.links.tgt[first])


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
