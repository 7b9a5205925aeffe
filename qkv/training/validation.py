"""Validation on the dev data: loss, perplexity, metrics of the output, samples to read."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import torch

from qkv.data.batch import Batch
from qkv.data.length_limit import LengthLimit
from qkv.data.stream import BatchStream
from qkv.engines.torch_engine import TorchEngine
from qkv.evaluation.metrics.registry import METRICS, choose_metrics, group_by_source
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.search.default import quick_search
from qkv.text import TokenizerPair
from qkv.training.recipe import ValidationConfig
from qkv.translate.texts import DecodeOptions, SourceText, TextDecoder

Tick = Callable[[int, int], None]
"""Called with (done, total) between batches; may raise to stop early."""


@dataclass(frozen=True)
class Validation:
    """Scores by name, and a few outputs with their references."""

    scores: dict[str, float]
    samples: list[tuple[str, str, list[str]]]
    """(source, output, references)"""
    cut: int = 0
    """Number of outputs truncated at the length limit."""

    def samples_text(self) -> str:
        blocks = (
            "\n".join([f"src  {source}", f"out  {output}", *(f"ref  {answer}" for answer in answers)])
            for source, output, answers in self.samples
        )
        return "\n\n".join(blocks) + "\n"


def is_better(metric: str, new: float, old: float | None) -> bool:
    if math.isnan(new):
        return False
    if old is None:
        return True
    return new > old if higher_is_better(metric) else new < old


def higher_is_better(metric: str) -> bool:
    return metric != "loss" and METRICS[metric].higher_is_better


class Validator:
    """Holds the dev data; called with the model at each validation."""

    def __init__(
        self,
        config: ValidationConfig,
        stream: BatchStream,
        objective: Objective,
        tokenizers: TokenizerPair,
        length_limit: LengthLimit | None,
    ) -> None:
        self.config = config
        self.metrics = choose_metrics(config.metrics, config.language)
        self.stream = stream
        self.objective = objective
        self.tokenizers = tokenizers
        self.length_limit = length_limit
        pairs = list(chain.from_iterable(stream.store.chunks()))
        self.sources, self.answers = group_by_source([src for src, _ in pairs], [tgt for _, tgt in pairs])

    def __call__(self, model: Model, tick: Tick) -> Validation:
        was_training = model.training
        model.eval()
        try:
            loss = self._loss(model, tick)
            scores = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
            return self._decode(model, scores, tick)
        finally:
            model.train(was_training)

    @torch.no_grad()
    def _loss(self, model: Model, tick: Tick) -> float:
        nll = weight = 0.0
        batches = len(self.stream.plan(0))
        for index in range(batches):
            batch: Batch = self.stream.batch(0, index)
            report = self.objective.validation_loss(model, batch)
            nll += report.nll
            weight += report.weight
            tick(index + 1, batches)
        return nll / weight if weight else math.inf

    def _decode(self, model: Model, scores: dict[str, float], tick: Tick) -> Validation:
        """Add the scores of the output to `scores`; with no metric asked for, only the samples are decoded.

        Outputs are compared with the targets as they are in the data, as in `qkv evaluate`.
        """
        wanted = self.config.max_sources if self.config.metrics else self.config.samples
        chosen = _spread(len(self.sources), wanted)
        if not chosen:
            return Validation(scores, [])
        sources = [self.sources[i] for i in chosen]
        answers = [self.answers[i] for i in chosen]
        search = (self.config.search or quick_search(model)).within(self.length_limit)
        options, batch_tokens = DecodeOptions(token_scores=False), self.stream.budget.tokens
        decoder = TextDecoder(TorchEngine([model]), self.tokenizers, search, options, batch_tokens)
        found = decoder([SourceText(text) for text in sources], lambda done: tick(done, len(sources)))
        outputs = [translation.text for translation in found]
        for metric in self.metrics:
            scores[metric.name] = metric.score(outputs, answers)
        shown = _spread(len(chosen), self.config.samples)
        samples = [(sources[i], outputs[i], answers[i]) for i in shown]
        return Validation(scores, samples, sum(translation.out_cut for translation in found))


def _spread(size: int, wanted: int | None) -> list[int]:
    """`wanted` of `size` indices, evenly spread; all of them if `wanted` is None."""
    count = size if wanted is None else min(size, wanted)
    return [index * size // count for index in range(count)]
