"""Writes a recipe for given pairs, with a comment on each choice."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from qkv.config.yaml import write_yaml
from qkv.recipes.discover import Found
from qkv.recipes.profile import Profile, Side
from qkv.training.setup.advice import Sizes, fitting_sizes, suggested_holdout

BATCHES_AN_EPOCH = 200
VALIDATIONS = 5
MANY_EPOCHS = 20
"""For letters and closed vocabularies; a run that sees each pair less often learns faster without dropout."""
USUAL_LIMIT = 256


@dataclass(frozen=True)
class Plan:
    """The numbers of a recipe."""

    profile: Profile

    @cached_property
    def sizes(self) -> Sizes:
        return fitting_sizes(self.profile.tokens)

    @cached_property
    def epoch_tokens(self) -> float:
        """Positions of the longer side in an epoch."""
        return self.profile.pairs * (max(self.profile.src.tokens, self.profile.tgt.tokens) + 1)

    @cached_property
    def batch_tokens(self) -> int:
        """A power of two: small enough that an epoch has many batches, and large enough for the longest pair."""
        wanted = 2 ** round(math.log2(max(1.0, self.epoch_tokens / BATCHES_AN_EPOCH)))
        least = 2 ** math.ceil(math.log2(max(_limit(self.profile.src), _limit(self.profile.tgt))))
        return int(max(least, min(4096, wanted)))

    @cached_property
    def epochs(self) -> int:
        return max(3, math.ceil(self.sizes.updates * self.batch_tokens / max(self.epoch_tokens, self.batch_tokens)))

    @property
    def updates(self) -> int:
        return round(self.epochs * max(1.0, self.epoch_tokens / self.batch_tokens))

    @property
    def dropout(self) -> float:
        """The more often a pair is seen, the more."""
        if "subword" in (self.profile.src.unit, self.profile.tgt.unit):
            return 0.3 if self.profile.tokens < 500_000 else 0.2 if self.profile.tokens < 10_000_000 else 0.1
        return 0.1 if self.epochs > MANY_EPOCHS else 0.0


def _limit(side: Side) -> int:
    """The most tokens of a text: the default, or somewhat more than the longest has."""
    return max(USUAL_LIMIT, 64 * math.ceil(side.longest * 1.25 / 64))


def compose(found: Found, profile: Profile, run: Path) -> str:
    """The whole recipe."""
    plan = Plan(profile)
    return "\n".join(
        [*_head(found, plan, run), *_data(found, plan), *_text(plan), *_learning(plan), *_checking(plan), ""]
    )


def _head(found: Found, plan: Plan, run: Path) -> Iterator[str]:
    profile = plan.profile
    yield f"# {found.name}: {profile.pairs:,} pairs, about {profile.tokens:,} tokens. Written by qkv init."
    yield f"run: {_inline(str(run))}  # the folder of the run; its best model will be in {run / 'best'}"
    yield ""


def _data(found: Found, plan: Plan) -> Iterator[str]:
    yield "data:"
    yield f"  root: {_inline(str(found.root))}"
    for name, corpus in (("train", found.train), ("dev", found.dev), ("test", found.test)):
        if corpus is not None:
            yield f"  {name}: {_inline(corpus)}"
    if found.dev is None:
        held_out = suggested_holdout(plan.profile.pairs)
        yield f"  holdout: {held_out}  # pairs kept apart to choose the best model by, since no dev file was found"
    for side, own in (("src", plan.profile.src), ("tgt", plan.profile.tgt)):
        yield f"  max_{side}_tokens: {_limit(own)}  # the longest has about {own.longest}; what is longer is dropped"
    yield ""


def _text(plan: Plan) -> Iterator[str]:
    profile = plan.profile
    yield "text:"
    if profile.alike:
        yield f"  shared: {_tokenizer(profile.src, plan)}  # {profile.src.why}; both sides are written alike"
    else:
        yield f"  src: {_tokenizer(profile.src, plan)}  # {profile.src.why}"
        yield f"  tgt: {_tokenizer(profile.tgt, plan)}  # {profile.tgt.why}"
    yield ""


def _tokenizer(side: Side, plan: Plan) -> str:
    if side.unit != "subword":
        return f"{{kind: {side.unit}}}"
    default = 8000 if plan.profile.pairs >= 20_000 else 4000 if plan.profile.pairs >= 5_000 else 1000
    possible = len(plan.profile.src.vocabulary | plan.profile.tgt.vocabulary if plan.profile.alike else side.vocabulary)
    return f"{{kind: bpe, vocab_size: {max(300, min(default, 261 + possible))}}}"


def _learning(plan: Plan) -> Iterator[str]:
    sizes = plan.sizes
    batches = plan.updates / plan.epochs
    yield f"batch: {{tokens: {plan.batch_tokens}}}  # about {batches:,.0f} batches an epoch"
    yield "model:"
    yield f"  d_model: {sizes.d_model}  # a size that so many tokens can fill; small models learn sooner"
    yield f"  d_ff: {sizes.d_ff}"
    yield f"  num_heads: {sizes.num_heads}"
    yield f"  encoder_layers: {sizes.layers}"
    yield f"  decoder_layers: {sizes.layers}"
    yield f"  dropout: {plan.dropout}  # more if the dev loss rises while the training loss falls"
    yield "  residual: pre  # learns at higher rates than post-norm, the paper's"
    yield "  positions: rope  # learns sooner; take sinusoidal to export to CTranslate2 or Hugging Face"
    warmup = max(1, plan.updates // 20)
    yield f"schedule: {{kind: linear, peak: {sizes.rate}, warmup: {warmup}}}  # up, then down to the end of the run"
    yield "training:"
    yield f"  stop_after: {plan.epochs}e  # about {plan.updates:,} updates"
    if sizes.layers <= 2:
        yield "  threads: 1  # the model is too small to share out"
    else:
        yield "  workers: auto  # a process for each core"


def _checking(plan: Plan) -> Iterator[str]:
    metrics = plan.profile.metrics
    yield "validation:"
    yield f"  every: {max(1, plan.epochs // VALIDATIONS)}e"
    yield f"  metrics: [{', '.join(metrics.names)}]  # for {metrics.why}, as qkv evaluate chooses them"
    yield f"  best: {metrics.names[0]}  # decides which model is kept"


def _inline(value: Any) -> str:
    """YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(inner)}" for key, inner in value.items()) + "}"
    text = write_yaml({"key": value}).removeprefix("key:").strip()
    return f'"{text}"' if isinstance(value, str) and not text.startswith('"') and set(text) & set(",{}[]#") else text
