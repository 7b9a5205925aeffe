"""The analysis of all heads of a model over a corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qkv.core.progress import Reporter, SilentReporter
from qkv.functional.heads.measures import classical_mds
from qkv.models.language.masked import TextModel
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.head_ids import HeadId, Side
from qkv.visual.heads.corpus import HeadCorpus
from qkv.visual.heads.distances import DistanceSums, LayerDistances, Numbers, layer_distances
from qkv.visual.heads.importance import head_importance
from qkv.visual.heads.profile import HeadProfile, KeyKinds, ProfileSums
from qkv.visual.heads.weights import analysed, heads_of, weights_of

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class SideAnalysis:
    """The heads of one side: encoder, decoder or cross-attention."""

    side: Side
    heads: list[HeadId]
    profiles: list[HeadProfile]
    even: dict[str, float | None]
    """The shares that even attention would give to each kind of key."""
    divergence: Numbers
    """[N, N], the mean Jensen-Shannon divergence between two heads, nats a query."""
    places: Numbers
    """[N, 2], the map of the heads: classical scaling of the roots of the divergences, which are a metric."""
    layers: LayerDistances | None
    """None: there are not two layers with two heads."""
    importance: list[float] | None
    """Of each head, by the gradient; see `head_importance`. None: the model reads no target."""

    @property
    def answers(self) -> list[str]:
        """The two questions about layers, answered in sentences, and whether sharp heads are important ones."""
        found = self.layers
        third = []
        if self.importance is not None:
            together = rank_correlation([one.confidence for one in self.profiles], self.importance)
            third = [f"Confidence and importance of the heads of the {self.name}: rank correlation {together:+.2f}."]
        if found is None:
            return [f"The {self.name} has too few layers or heads to compare layers.", *third]
        alike = found.p_alike < SIGNIFICANT
        first = (
            f"Heads of one layer of the {self.name} {'look' if alike else 'do not look'} at more similar places than "
            f"heads of different layers: mean Jensen-Shannon divergence {found.same_layer:.3f} within a layer, "
            f"{found.other_layers:.3f} between layers (p = {found.p_alike:.4f})."
        )
        listed = ", ".join(f"{value:.3f}" for value in found.within)
        change = "does not change significantly"
        if found.p_depth < SIGNIFICANT:
            change = "grows" if found.slope < 0 else "falls"
        second = (
            f"Redundancy in the {self.name} {change} with depth: the divergence within a layer is {listed} from the "
            f"first layer to the last, {found.slope:+.3f} a layer (p = {found.p_depth:.4f})."
        )
        return [first, second, *third]

    @property
    def name(self) -> str:
        return "cross-attention" if self.side == "cross" else self.side


@dataclass(frozen=True)
class HeadAnalysis:
    """What `qkv heads` finds."""

    data: str
    pairs: int
    sides: list[SideAnalysis]

    @property
    def ranks(self) -> dict[str, dict[HeadId, float]]:
        """The heads of all sides by what heads can be removed by, the first to go lowest."""
        pairs = [pair for side in self.sides for pair in zip(side.profiles, side.importance or [], strict=True)]
        return {
            "importance": {one.head: importance for one, importance in pairs},
            "confidence": {one.head: one.confidence for one, _ in pairs},
        }


def analyze_heads(saved: SavedModel, corpus: HeadCorpus, reporter: Reporter | None = None) -> HeadAnalysis:
    """Run the model over the corpus, batch by batch, and measure each head.

    Examples:
        >>> from qkv import load_model
        >>> from qkv.visual.heads.analysis import analyze_heads
        >>> from qkv.visual.heads.corpus import HeadCorpus
        >>> pairs = [("ab", "ba"), ("ad", "da")]
        >>> found = analyze_heads(load_model("runs/reverse"), HeadCorpus("two pairs", lambda: pairs))
        >>> [side.side for side in found.sides], len(found.sides[0].profiles)
        (['encoder', 'decoder', 'cross'], 4)
    """
    model, reporter = analysed(saved.model), reporter or SilentReporter()
    heads = heads_of(model)
    src, tgt = corpus.frequencies(saved.tokenizers)
    src_kinds, tgt_kinds = KeyKinds.of(saved.tokenizers.src, src), KeyKinds.of(saved.tokenizers.tgt, tgt)
    kinds = {"encoder": src_kinds, "decoder": tgt_kinds, "cross": src_kinds}
    profiles = {side: ProfileSums(len(own)) for side, own in heads.items()}
    distances = {side: DistanceSums(len(own)) for side, own in heads.items()}
    counting, pairs = reporter.counting("Reading pairs"), 0
    for batch in corpus.batches(model, saved.tokenizers, max(map(len, heads.values()))):
        for seen in weights_of(model, batch):
            profiles[seen.side].add(seen, kinds[seen.side])
            distances[seen.side].add(seen)
        pairs += len(batch)
        counting(pairs, corpus.limit)
    importance = None if isinstance(model, TextModel) else head_importance(saved, corpus, reporter)
    sides = [_side(own, profiles[side], distances[side].mean(), importance) for side, own in heads.items()]
    return HeadAnalysis(corpus.name, pairs, sides)


def _side(
    heads: list[HeadId], profiles: ProfileSums, divergence: Numbers, importance: Mapping[HeadId, float] | None
) -> SideAnalysis:
    return SideAnalysis(
        side=heads[0].side,
        heads=heads,
        profiles=profiles.profiles(heads),
        even=profiles.even_shares(),
        divergence=divergence,
        places=classical_mds(torch.from_numpy(np.sqrt(divergence))).numpy(),
        layers=layer_distances(divergence, [head.layer for head in heads]),
        # Layers that share weights have one importance.
        importance=None
        if importance is None
        else [importance.get(head, importance[head._replace(layer=1)]) for head in heads],
    )


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's ρ: the correlation of the ranks; 0 where all values of one are equal. Ties get their mean rank."""
    first, second = (_ranks(np.asarray(values, dtype=np.float64)) for values in (one, other))
    spread = np.sqrt(np.sum(first**2) * np.sum(second**2))
    return float(first @ second / spread) if spread else 0.0


def _ranks(values: Numbers) -> Numbers:
    """Ranks around their mean."""
    ranks: Numbers = (values[:, None] > values).sum(1) + (values[:, None] == values).sum(1) / 2
    centred: Numbers = ranks - ranks.mean()
    return centred
