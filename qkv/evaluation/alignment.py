"""Alignment error rate, and which attention head aligns best."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qkv.data.alignments.pharaoh import Alignment, Link
from qkv.data.alignments.words import WordAlignment
from qkv.translate.align import Aligner, AlignmentHead


@dataclass(frozen=True)
class AlignmentScore:
    """How links A agree with sure links S and possible links P ⊇ S (Och and Ney 2003), over all pairs."""

    found: int
    """|A|"""
    sure: int
    """|S|"""
    found_sure: int
    """|A ∩ S|"""
    found_possible: int
    """|A ∩ P|"""

    @property
    def error_rate(self) -> float:
        """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in percent."""
        return 100 * (1 - (self.found_sure + self.found_possible) / max(self.found + self.sure, 1))

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|, in percent."""
        return 100 * self.found_possible / max(self.found, 1)

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|, in percent."""
        return 100 * self.found_sure / max(self.sure, 1)

    def __str__(self) -> str:
        return f"AER {self.error_rate:.1f}, precision {self.precision:.1f}, recall {self.recall:.1f}"


def score_alignments(found: Iterable[frozenset[Link]], gold: Iterable[Alignment]) -> AlignmentScore:
    """The score of the links of each pair.

    Examples:
        >>> from qkv.data.alignments.pharaoh import parse_alignment
        >>> from qkv.evaluation.alignment import score_alignments
        >>> gold = parse_alignment("0-0 1?1", "gold:1")
        >>> print(score_alignments([frozenset({(0, 0), (1, 1), (2, 2)})], [gold]))
        AER 25.0, precision 66.7, recall 100.0
    """
    totals = [0, 0, 0, 0]
    for links, one in zip(found, gold, strict=True):
        possible = one.sure | one.possible
        for place, count in enumerate((links, one.sure, links & one.sure, links & possible)):
            totals[place] += len(count)
    return AlignmentScore(*totals)


def best_head(
    aligner: Aligner, pairs: Sequence[tuple[str, str]], gold: Sequence[Alignment] | None = None
) -> AlignmentHead:
    """The head with the lowest error rate on `gold`, or without it the one that looks at single words most decidedly.

    That is the largest mean over the target words of their largest weight; what a head gives to END counts nothing.
    """
    heads = aligner.heads()
    found = aligner.align_by_all(pairs, heads)
    by_head = [[of_pair[number] for of_pair in found] for number in range(len(heads))]
    if gold is None:
        costs = [-_decision(own) for own in by_head]
    else:
        costs = [score_alignments([one.links for one in own], gold).error_rate for own in by_head]
    return heads[costs.index(min(costs))]


def _decision(alignments: Iterable[WordAlignment]) -> float:
    """The mean over all target words of their largest weight."""
    largest = [float(row.max()) for one in alignments for row in one.weights if row.size]
    return sum(largest) / max(len(largest), 1)
