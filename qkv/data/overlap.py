"""What a part of the data shares with train."""

from dataclasses import dataclass
from itertools import chain

from qkv.data.build import CountProgress
from qkv.data.store import PairStore


@dataclass(frozen=True)
class Overlap:
    """Pairs of a part that train has too: with both sides equal, or with the same source.

    Of examples without a target, both numbers are those of equal examples.
    """

    pairs: int
    sources: int
    total: int
    """Pairs of the part."""

    def line(self, name: str, unit: str) -> str:
        """For people: `name` is that of the part, `unit` what its examples are called."""
        return f"{name} and train: {self.pairs:,} of {self.total:,} {unit} of {name} are in train"


def overlap_with_train(
    part: PairStore, train: PairStore, progress: CountProgress = lambda done, total: None
) -> Overlap:
    """The texts of `part` are held in memory; those of train are streamed, and `progress` counts them."""
    pairs = list(chain.from_iterable(part.chunks()))
    wanted_pairs, wanted_sources = set(pairs), {src for src, _ in pairs}
    found_pairs: set[tuple[str, str]] = set()
    found_sources: set[str] = set()
    done = 0
    for chunk in train.chunks():
        found_pairs |= wanted_pairs.intersection(chunk)
        found_sources |= wanted_sources.intersection(src for src, _ in chunk)
        done += len(chunk)
        progress(done, len(train))
    return Overlap(
        pairs=sum(pair in found_pairs for pair in pairs),
        sources=sum(src in found_sources for src, _ in pairs),
        total=len(pairs),
    )
