"""Advice before a run: what the recipe and its data will probably do, each as a sentence with the key to change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qkv.data.check import Overlap
from qkv.data.length_limit import LengthLimit
from qkv.data.parts import corpus_keys
from qkv.data.readers.table import TableCorpus
from qkv.data.store import PairStore
from qkv.models.size import count_parameters
from qkv.search.greedy import GreedyConfig
from qkv.training.recipe import Recipe
from qkv.training.setup.prepare import PreparedData


class Sizes(NamedTuple):
    """A model size, and the number of training tokens of both sides from which on it fits."""

    from_tokens: int
    d_model: int
    d_ff: int
    num_heads: int
    layers: int
    rate: float
    """The highest learning rate."""
    updates: int
    """A good length of a run from scratch."""


SIZES = (
    Sizes(0, 64, 128, 4, 2, 3e-3, 2_000),
    Sizes(50_000, 128, 256, 4, 2, 2e-3, 3_500),
    Sizes(500_000, 128, 512, 4, 3, 2e-3, 6_000),
    Sizes(10_000_000, 256, 1024, 4, 6, 1e-3, 30_000),
    Sizes(100_000_000, 512, 2048, 8, 6, 7e-4, 100_000),
)
"""From a few hundred pairs to the paper's base model. Small ones learn sooner, and a CPU is enough for them."""


def fitting_sizes(tokens: int) -> Sizes:
    """The size for this number of training tokens of both sides."""
    return max((sizes for sizes in SIZES if sizes.from_tokens <= tokens), key=lambda sizes: sizes.from_tokens)


def out_of_reach(name: str, store: PairStore, recipe: Recipe, limit: LengthLimit) -> Iterator[str]:
    """An advice, if there are such targets in the part `name`; `limit` is the one that a model of this run learns."""
    validating = recipe.validation.search if name == "dev" else None
    key = "validation.search.max_length" if name == "dev" else "search.max_length of qkv evaluate"
    search, most = (validating or GreedyConfig()).within(limit), recipe.model.limits.tgt
    lengths, place = np.unique(store.src_len, return_inverse=True)
    reached = np.array([search.limits(int(length), most).max_length for length in lengths])
    if count := int((store.tgt_len > reached[place]).sum()):
        yield (
            f"{count:,} of {len(store):,} targets of {name} are longer than an output may be, so no model can get them "
            f"right: raise {key}"
        )


FEW_DEV_PAIRS = 50
"""With fewer, one pair is worth 2 % or more, and the best model is chosen by chance."""
SHARED = 0.05
"""The share of dev pairs that may be in train by accident."""
PARAMETERS_A_TOKEN = 30
"""With more parameters per training token than this, a model memorises its data, or learns nothing in the time."""
FEW_UPDATES = 300


@dataclass(frozen=True)
class Situation:
    """A recipe and what was prepared for it."""

    recipe: Recipe
    prepared: PreparedData
    dev_in_train: Overlap | None
    """How much of dev is in train, if that was checked."""

    @cached_property
    def tokens(self) -> int:
        """Training tokens of both sides."""
        return int(self.prepared.train.src_len.sum()) + int(self.prepared.train.tgt_len.sum())

    @cached_property
    def updates(self) -> float | None:
        """The approximate number of updates of the run; None if its length is a time."""
        stop, train = self.recipe.training.stop_after, self.prepared.train
        each = _batches(train, self.recipe.batch.tokens, self.recipe.batch.pairs) / self.recipe.training.accumulate
        if stop.unit == "updates":
            return stop.amount
        if stop.unit == "epochs":
            return stop.amount * each
        return stop.amount / float(train.tgt_len.sum()) * each if stop.unit == "tokens" else None

    @cached_property
    def parameters(self) -> int:
        return count_parameters(self.recipe.model, self.prepared.tokenizers)


def _batches(train: PairStore, tokens: int, pairs: int | None) -> float:
    """The approximate number of batches per epoch, ignoring padding."""
    longer = np.maximum(train.src_len, train.tgt_len)
    weights = [(corpus.weight, corpus.start, corpus.stop) for corpus in train.ranges]
    by_tokens = sum(weight * float(longer[start:stop].sum()) for weight, start, stop in weights) / tokens
    by_pairs = sum(weight * (stop - start) for weight, start, stop in weights) / pairs if pairs else 0.0
    return max(by_tokens, by_pairs, 1.0)


def advise(recipe: Recipe, prepared: PreparedData, dev_in_train: Overlap | None) -> list[str]:
    """What to change before training, most important first; empty if nothing seems wrong."""
    situation = Situation(recipe, prepared, dev_in_train)
    return [sentence for check in CHECKS for sentence in check(situation)]


def _headers(now: Situation) -> Iterator[str]:
    for key, corpus in corpus_keys(now.recipe.data):
        if isinstance(corpus, TableCorpus) and corpus.possible_header(now.recipe.data.root):
            yield (
                f"{now.recipe.data.root / corpus.path}:1 looks like names of columns and would be learned as a pair: "
                f"set {key}.header to true to skip it, or to false if it is a pair"
            )


def _dev_size(now: Situation) -> Iterator[str]:
    train, dev = len(now.prepared.train), now.prepared.dev
    wanted = suggested_holdout(train)
    if dev is None:
        yield (
            "there is no dev data, so the last model is kept as the best and no score says how good it is: set "
            f"data.holdout to {wanted}, say, or give data.dev"
        )
    elif len(dev) < FEW_DEV_PAIRS and now.recipe.data.dev is not None:
        yield (
            f"dev has only {len(dev)} pair(s), too few to choose the best model by: give more in data.dev, or set "
            f"data.holdout to {wanted}, say, in its place"
        )
    elif len(dev) < min(FEW_DEV_PAIRS, wanted):
        yield f"only {len(dev)} pair(s) are held out, too few to choose the best model by: set data.holdout to {wanted}"


def suggested_holdout(pairs: int) -> int:
    """A twentieth of the pairs, but enough to measure by, and no more than is needed for that."""
    return max(1, min(500, max(pairs // 20, FEW_DEV_PAIRS), pairs // 5))


def _dev_in_train(now: Situation) -> Iterator[str]:
    dev, shared = now.prepared.dev, now.dev_in_train
    if dev is None or shared is None or now.recipe.data.dev is None:
        return
    if shared.pairs > SHARED * len(dev):
        yield (
            f"{shared.pairs:,} of {len(dev):,} pairs of dev are also in train, so the scores will be too good: take "
            "them out of data.train, or leave out data.dev and set data.holdout"
        )
    elif shared.sources > SHARED * len(dev):
        yield (
            f"{shared.sources:,} of {len(dev):,} sources of dev are also in train, with other targets: if dev is to "
            "show how new sources are treated, take them out of data.train, or set data.holdout, which keeps them apart"
        )


def _model_size(now: Situation) -> Iterator[str]:
    fit = fitting_sizes(now.tokens)
    smaller = now.recipe.model.overrides_for(fit.d_model, fit.d_ff, fit.num_heads, fit.layers)
    if smaller and now.recipe.start_from is None and now.parameters > PARAMETERS_A_TOKEN * now.tokens:
        yield (
            f"the model has {now.parameters:,} parameters for {now.tokens:,} training tokens, which is too large: try "
            f"{smaller}"
        )


def _warm_up(now: Situation) -> Iterator[str]:
    warmup = now.recipe.schedule.warmup
    if now.updates is not None and warmup > now.updates:
        yield (
            f"the warm-up of {warmup:,} updates is longer than the run of about {now.updates:,.0f}, so the learning "
            f"rate never reaches its peak: set schedule.warmup to {max(1, round(now.updates / 10)):,}, or raise "
            "training.stop_after"
        )


def _length(now: Situation) -> Iterator[str]:
    stop = now.recipe.training.stop_after
    if now.updates is not None and stop.unit != "updates" and now.updates < FEW_UPDATES:
        yield (
            f"the run ends after about {now.updates:,.0f} updates, too few to learn from scratch: raise "
            f"training.stop_after (to {10 * FEW_UPDATES}u, say), or lower batch.tokens"
        )


def _dev_reach(now: Situation) -> Iterator[str]:
    if now.prepared.dev is not None:
        yield from out_of_reach("dev", now.prepared.dev, now.recipe, now.prepared.length_limit)


CHECKS: tuple[Callable[[Situation], Iterator[str]], ...] = (
    _headers,
    _dev_in_train,
    _dev_size,
    _dev_reach,
    _model_size,
    _warm_up,
    _length,
)
