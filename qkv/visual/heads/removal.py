"""The score of a model without some of its heads: without each of them, and along orders of removal."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qkv.core.progress import Reporter, SilentReporter
from qkv.evaluation.evaluate import count
from qkv.evaluation.files import EvaluationSet, set_of_pairs
from qkv.evaluation.metrics.base import Counts, Metric
from qkv.evaluation.resampling import SEED, Interval, PairedTest, intervals, paired_tests, silent
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.pruning import closed_heads
from qkv.translate.translator import Translator
from qkv.visual.heads.corpus import HeadCorpus
from qkv.visual.heads.weights import require_heads

RANDOM_ORDERS = 10
POINTS = 8
"""Numbers of removed heads at which a curve is measured."""


class RemovalScorer:
    """Decodes a test set with heads closed, greedily, and scores the outputs."""

    def __init__(self, saved: SavedModel, test: EvaluationSet, metric: Metric) -> None:
        self.saved, self.test, self.metric = saved, test, metric
        self.model = require_heads(saved.model)
        self._known: dict[frozenset[HeadId], Counts] = {}

    def counts(self, removed: Collection[HeadId]) -> Counts:
        """The counts of each output without these heads."""
        key = frozenset(removed)
        if key not in self._known:
            assert self.test.sources is not None
            with closed_heads(self.model, key):
                # A translator copies the weights.
                translator = Translator(self.saved, "torch", "greedy", workers=1, device="cpu")
                outputs = [found.text for found in translator.translate(self.test.sources, token_scores=False)]
            self._known[key] = count(self.metric, outputs, self.test.references, silent)
        return self._known[key]

    def score(self, removed: Collection[HeadId]) -> float:
        return self.metric.from_total(self.counts(removed).sum(axis=0))

    def loss(self, removed: Collection[HeadId]) -> float:
        """How much worse the score is without these heads."""
        change = self.score(()) - self.score(removed)
        return change if self.metric.higher_is_better else -change

    def test_against_whole(self, removed: Collection[HeadId]) -> PairedTest:
        """Whether the outputs differ from those of the whole model."""
        (found,) = paired_tests([self.metric], [self.counts(())], [self.counts(removed)])
        return found

    def interval(self) -> Interval:
        """Of the score of the whole model."""
        (found,) = intervals([self.metric], [self.counts(())])
        return found


def decoded_set(corpus: HeadCorpus, sources: int) -> EvaluationSet:
    """The first pairs of a corpus, so many at most, to be decoded."""
    pairs = [pair for pair, _ in zip(corpus.pairs(), range(sources), strict=False)]
    return set_of_pairs(corpus.name, pairs)


@dataclass(frozen=True)
class RemovedHead:
    """The score without one head."""

    head: HeadId
    score: float
    test: PairedTest


def remove_each(scorer: RemovalScorer, reporter: Reporter | None = None) -> list[RemovedHead]:
    """The score without each head, one at a time."""
    heads = [head for place in own_attentions(scorer.model) for head in place.heads]
    counting = (reporter or SilentReporter()).counting("Removing each head")
    found = []
    for done, head in enumerate(heads, start=1):
        found.append(RemovedHead(head, scorer.score([head]), scorer.test_against_whole([head])))
        counting(done, len(heads))
    return found


def removal_order(attentions: Sequence[Sequence[HeadId]], rank: Mapping[HeadId, float]) -> list[HeadId]:
    """The heads from the lowest rank up; the last head of each attention stays and is not in the list."""
    left = {head: len(heads) for heads in attentions for head in heads}
    order = []
    for head in sorted(left.keys() & rank.keys(), key=lambda head: (rank[head], head)):
        if left[head] > 1:
            order.append(head)
            for other in left:
                if (other.side, other.layer) == (head.side, head.layer):
                    left[other] -= 1
    return order


@dataclass(frozen=True)
class PruningCurve:
    """Scores with more and more heads removed, in several orders."""

    metric: Metric
    removed: list[int]
    """Numbers of removed heads."""
    total: int
    """Heads of the whole model."""
    orders: dict[str, list[float]]
    """Scores by the name of an order."""
    random: list[list[float]]
    """Scores of each random order."""
    tests: list[PairedTest]
    """The first order against the whole model, at each number."""
    p_random: float
    """The share of orders, this one included, whose mean score is at least that of the first order."""


def pruning_curve(
    scorer: RemovalScorer, ranks: Mapping[str, Mapping[HeadId, float]], reporter: Reporter | None = None
) -> PruningCurve:
    """Remove heads by each rank, lowest first, and in `RANDOM_ORDERS` random orders."""
    attentions = [place.heads for place in own_attentions(scorer.model)]
    heads = [head for own in attentions for head in own]
    random = np.random.default_rng(SEED)
    orders = {name: removal_order(attentions, rank) for name, rank in ranks.items()}
    for number in range(RANDOM_ORDERS):
        drawn = dict(zip(heads, random.permutation(len(heads)).tolist(), strict=True))
        orders[f"random {number + 1}"] = removal_order(attentions, drawn)
    most = len(heads) - len(attentions)
    points = sorted({round(share * most / POINTS) for share in range(POINTS + 1)})
    counting, done = (reporter or SilentReporter()).counting("Pruning curve"), 0
    scores: dict[str, list[float]] = {}
    for name, order in orders.items():
        scores[name] = []
        for point in points:
            scores[name].append(scorer.score(order[:point]))
            done += 1
            counting(done, len(orders) * len(points))
    first = next(iter(ranks))
    drawn_scores = [scores[name] for name in orders if name not in ranks]
    sign = 1 if scorer.metric.higher_is_better else -1
    better = sum(sign * np.mean(one) >= sign * np.mean(scores[first]) for one in drawn_scores)
    return PruningCurve(
        metric=scorer.metric,
        removed=points,
        total=len(heads),
        orders={name: scores[name] for name in ranks},
        random=drawn_scores,
        tests=[scorer.test_against_whole(orders[first][:point]) for point in points],
        p_random=(int(better) + 1) / (len(drawn_scores) + 1),
    )


@dataclass(frozen=True)
class RemovalStudy:
    """Scores of a model without some of its heads."""

    metric: Metric
    outputs: int
    whole: float
    """The score of the whole model."""
    each: list[RemovedHead]
    curve: PruningCurve | None

    @property
    def answers(self) -> list[str]:
        """What was found, in sentences."""
        title, said = self.metric.title, []
        if self.each:
            worse = [one for one in self.each if one.test.significant() and not self._better(one.test.difference)]
            named = f" ({', '.join(str(one.head) for one in worse)})" if worse else ""
            said.append(
                f"Without one head, {title} is significantly worse (p < 0.05, not corrected for the number of tests) "
                f"for {len(worse)} of {len(self.each)} heads{named}; the whole model has {self.whole:.2f}."
            )
        if self.curve is not None:
            said += self._of_curve(self.curve)
        return said

    def _of_curve(self, curve: PruningCurve) -> list[str]:
        first = next(iter(curve.orders))
        pairs = zip(curve.removed, curve.tests, strict=True)
        harmless = [removed for removed, test in pairs if not test.significant() or self._better(test.difference)]
        mean, drawn = np.mean(curve.orders[first]), np.mean(curve.random)
        listed = ", ".join(map(str, harmless))
        return [
            f"Removing heads by {first}, {self.metric.title} is not significantly worse with {listed} of {curve.total} "
            f"heads removed; measured were {', '.join(map(str, curve.removed))}.",
            f"Over the whole curve, the order by {first} has a mean {self.metric.title} of {mean:.2f}, random orders "
            f"have {drawn:.2f} (p = {curve.p_random:.3f} by rank among {len(curve.random) + 1} orders).",
        ]

    def _better(self, difference: float) -> bool:
        return (difference > 0) == self.metric.higher_is_better


def study_removal(
    scorer: RemovalScorer,
    ranks: Mapping[str, Mapping[HeadId, float]],
    each: bool,
    curve: bool,
    reporter: Reporter | None = None,
) -> RemovalStudy:
    """The score without each head (`each`), and with heads removed by each rank and at random (`curve`)."""
    return RemovalStudy(
        metric=scorer.metric,
        outputs=len(scorer.test),
        whole=scorer.score(()),
        each=remove_each(scorer, reporter) if each else [],
        curve=pruning_curve(scorer, ranks, reporter) if curve else None,
    )
