"""Validation on the dev data: loss, perplexity, metrics of the output, samples to read."""

import math
from dataclasses import dataclass, replace

import torch

from qkv.core.devices import widest_float
from qkv.data.stream import BatchStream
from qkv.evaluation.metrics.registry import METRICS, choose_metrics
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.training.inside.snapshots import Snapshot, Snapshots
from qkv.training.outputs import DevData, outputs
from qkv.training.outputs.base import Tick, spread
from qkv.training.recipe import ValidationConfig


@dataclass(frozen=True)
class Validation:
    """Scores by name, and a few outputs with their references."""

    scores: dict[str, float]
    samples: list[tuple[str, str, list[str]]]
    """(source, output, references)"""
    cut: int = 0
    """Number of outputs truncated at the length limit."""
    snapshot: Snapshot | None = None
    """A few pairs inside the model."""

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
    """Holds the dev data; called with the model at each validation.

    `asked` is what the model is asked for; without outputs that the data could judge, only the loss is measured.
    """

    def __init__(
        self, config: ValidationConfig, asked: str, data_kind: str, dev: DevData, objective: Objective
    ) -> None:
        self.config = config
        self.metrics = choose_metrics(config.metrics, config.language)
        self.stream = dev.stream
        self.objective = objective
        known = asked in outputs and data_kind in outputs[asked].data
        self.outputs = outputs[asked].build(dev) if known else None
        self.snapshots = None
        if config.attention_samples and asked == "translate" and isinstance(dev.stream, BatchStream):
            self.snapshots = Snapshots(dev.stream, objective, config.attention_samples)

    def __call__(self, model: Model, tick: Tick) -> Validation:
        was_training = model.training
        model.eval()
        try:
            result = self._decode(model, self._loss(model, tick), tick)
            return replace(result, snapshot=self.snapshots(model)) if self.snapshots else result
        finally:
            model.train(was_training)

    @torch.no_grad()
    def _loss(self, model: Model, tick: Tick) -> dict[str, float]:
        """The loss, and the perplexity where the loss is a likelihood."""
        totals = torch.zeros(4, dtype=widest_float(model.device), device=model.device)
        likelihood = True
        batches = len(self.stream.plan(0))
        for index in range(batches):
            report = self.objective.validation_loss(model, self.stream.batch(0, index).to(model.device))
            totals += report.numbers
            likelihood &= report.likelihood
            tick(index + 1, batches)
        _, nll, weight, _ = totals.tolist()
        loss = nll / weight if weight else math.inf
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))} if likelihood else {"loss": loss}

    def _decode(self, model: Model, scores: dict[str, float], tick: Tick) -> Validation:
        """Add the scores of the output to `scores`; with no metric asked for, only the samples are decoded."""
        wanted = self.config.max_sources if self.config.metrics else self.config.samples
        chosen = [] if self.outputs is None else spread(len(self.outputs), wanted)
        if self.outputs is None or not chosen:
            return Validation(scores, [])
        found = self.outputs(model, chosen, tick)
        texts, answers = [each.output for each in found], [each.answers for each in found]
        for metric in self.metrics:
            scores[metric.name] = metric.score(texts, answers)
        shown = [found[i] for i in spread(len(found), self.config.samples)]
        samples = [(each.source, each.output, each.answers) for each in shown]
        return Validation(scores, samples, sum(each.cut for each in found))
