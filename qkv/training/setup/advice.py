"""Advice before a run: what the recipe and its data will probably do, each as a sentence with the key to change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from qkv.config import Names
from qkv.data.overlap import Overlap
from qkv.data.tasks import Store, task_of
from qkv.models.size import count_parameters
from qkv.objectives.build import objective_kinds
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


FEW_DEV_PAIRS = 50
"""With fewer, one pair is worth 2 % or more, and the best model is chosen by chance."""
PARAMETERS_A_TOKEN = 30
"""With more parameters per training token than this, a model memorises its data, or learns nothing in the time."""
FEW_UPDATES = 300
SHARED = 0.05
"""The share of dev examples that may be in train by accident."""


@dataclass(frozen=True)
class Situation:
    """A recipe and what was prepared for it."""

    recipe: Recipe
    prepared: PreparedData
    dev_in_train: Overlap | None
    """How much of dev is in train, if that was checked."""
    test: Store | None = None
    """The test data, if they were prepared."""

    @cached_property
    def tokens(self) -> int:
        """Training tokens of both sides."""
        return self.prepared.train.num_tokens

    @cached_property
    def updates(self) -> float | None:
        """The approximate number of updates of the run; None if its length is a time."""
        stop, train = self.recipe.training.stop_after, self.prepared.train
        each = task_of(self.recipe.data).batches(train, self.recipe.batch) / self.recipe.training.accumulate
        if stop.unit == "updates":
            return stop.amount
        if stop.unit == "epochs":
            return stop.amount * each
        return stop.amount / epoch_weight(self.recipe, train) * each if stop.unit == "tokens" else None

    @cached_property
    def parameters(self) -> int:
        return count_parameters(self.recipe.model, self.prepared.tokenizers)


def epoch_weight(recipe: Recipe, train: Store) -> int:
    """What an epoch adds to the target tokens of a run."""
    kind = objective_kinds[recipe.model.learns[recipe.data.kind]]
    return max(1, kind.epoch_weight(recipe.objective, recipe.model, train))


Check = Callable[[Situation], Iterator[str]]
data_checks = Names[tuple[Check, ...]]("checks of data")
"""By kind of data: what else to look at, before the other checks."""


def advise(
    recipe: Recipe, prepared: PreparedData, dev_in_train: Overlap | None, test: Store | None = None
) -> list[str]:
    """What to change before training, most important first; empty if nothing seems wrong."""
    situation = Situation(recipe, prepared, dev_in_train, test)
    own = data_checks.get(recipe.data.kind, ())
    return [sentence for check in (_dev_in_train, *own, *CHECKS) for sentence in check(situation)]


def _dev_in_train(now: Situation) -> Iterator[str]:
    shared, unit = now.dev_in_train, task_of(now.recipe.data).unit
    if shared is not None and now.recipe.data.dev is not None and shared.pairs > SHARED * shared.total:
        yield (
            f"{shared.pairs:,} of {shared.total:,} {unit} of dev are also in train, so the scores will be too good: "
            "take them out of data.train, or leave out data.dev and set data.holdout"
        )


def _dev_size(now: Situation) -> Iterator[str]:
    train, dev = len(now.prepared.train), now.prepared.dev
    example = task_of(now.recipe.data).unit.removesuffix("s")
    wanted = suggested_holdout(train)
    if dev is None:
        yield (
            "there is no dev data, so the last model is kept as the best and no score says how good it is: set "
            f"data.holdout to {wanted}, say, or give data.dev"
        )
    elif len(dev) < FEW_DEV_PAIRS and now.recipe.data.holdout is None:
        yield (
            f"dev has only {len(dev)} {example}(s), too few to choose the best model by: give more in data.dev, or set "
            f"data.holdout to {wanted}, say, in its place"
        )
    elif len(dev) < min(FEW_DEV_PAIRS, wanted):
        yield (
            f"only {len(dev)} {example}(s) are held out, too few to choose the best model by: set data.holdout to "
            f"{wanted}"
        )


def suggested_holdout(pairs: int) -> int:
    """A twentieth of the pairs, but enough to measure by, and no more than is needed for that."""
    return max(1, min(500, max(pairs // 20, FEW_DEV_PAIRS), pairs // 5))


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


CHECKS: tuple[Check, ...] = (_dev_size, _model_size, _warm_up, _length)
"""For every kind of data."""
