"""Minimum-risk training (Shen et al. 2016): the expected cost of the model's own outputs, and the registry of costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.batch import Batch
from qkv.functional.risk import expected_risk
from qkv.models.base import Model
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport, Objective, without_end
from qkv.objectives.risk.candidates import Candidates, draw, sequence_log_probs
from qkv.objectives.risk.costs import Ids, bleu_cost, wer_cost
from qkv.text.special import SPECIAL, SpecialIds

Cost = Callable[[Ids, Ids], float]


@dataclass(frozen=True, kw_only=True)
class MinimumRisk:
    """loss = (1 - likelihood) Σ (target tokens of a sentence) · (its expected cost) + likelihood · (loss of `base`).

    Args:
        base: The objective beside it, which also validates.
        cost: An output and its reference, as token ids, to a cost.
        samples: Outputs that are drawn for each sentence.
        sharpness: The exponent of the probabilities among the drawn outputs.
        reference: Whether the reference is always among them.
        likelihood: The share of `base` in the loss.
        longest: Outputs that have not ended after this many times the tokens of the reference, and ten, are left out.
        special: Ids of the special tokens.
    """

    base: Objective
    cost: Cost
    samples: int = 8
    sharpness: float = 0.05
    reference: bool = True
    likelihood: float = 0.0
    longest: float = 2.0
    special: SpecialIds = SPECIAL

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        targets, lengths = without_end(batch, self.special.pad)
        references = [row[:length] for row, length in zip(targets.tolist(), lengths.tolist(), strict=True)]
        longest = int(self.longest * max(map(len, references))) + 10
        limit = model.limits.tgt
        candidates = draw(
            model, batch, self.samples, longest if limit is None else min(longest, limit - 1), self.special
        )
        for drawn, wanted in zip(candidates, references, strict=True):
            if wanted not in drawn and (self.reference or not drawn):
                drawn.append(wanted)
        risks = self.risks(model, batch, candidates, references)
        risk = torch.dot(risks, batch.tgt_weight.sum(dim=1).to(risks))
        if not self.likelihood:
            plain = self.base.validation_loss
            with torch.no_grad():
                return replace(plain(model, batch), sum=risk)
        report = self.base.training_loss(model, batch, update)
        return replace(report, sum=(1 - self.likelihood) * risk + self.likelihood * report.sum)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self.base.validation_loss(model, batch)

    def risks(self, model: Model, batch: Batch, candidates: Candidates, references: list[list[int]]) -> Tensor:
        """The expected cost of each sentence [B]: Σ Q(Y) cost(Y), with Q(Y) = p(Y)^sharpness / Σ_Y' p(Y')^sharpness.

        The sums are over the candidates; the gradient is that of the probabilities.
        """
        log_probs = sequence_log_probs(model, batch, candidates, self.special)
        risks = []
        for scores, outputs, wanted in zip(log_probs, candidates, references, strict=True):
            costs = torch.tensor([self.cost(output, wanted) for output in outputs]).to(scores)
            risks.append(expected_risk(scores, costs, self.sharpness))
        return torch.stack(risks)


class RiskConfig(Config):
    """Minimum-risk training: the expected cost of the model's own outputs. It refines a trained model."""

    cost: ClassVar[Cost]

    kind: str
    samples: int = Field(default=8, ge=1)
    """Outputs that are drawn for each sentence."""
    sharpness: float = Field(default=0.05, gt=0)
    """The exponent of the probabilities among the drawn outputs: the larger, the more the best of them count."""
    reference: bool = True
    """Whether the reference is always among them."""
    likelihood: float = Field(default=0.5, ge=0, lt=1)
    """The share of the usual loss, which keeps the model from forgetting; 0: the risk alone."""
    longest: float = Field(default=2.0, gt=0)
    """Outputs that have not ended after this many times the longest reference, and ten tokens, are left out."""

    def build(self, base: Objective, special: SpecialIds) -> MinimumRisk:
        """The objective, beside `base`."""
        return MinimumRisk(
            base=base,
            cost=type(self).cost,
            samples=self.samples,
            sharpness=self.sharpness,
            reference=self.reference,
            likelihood=self.likelihood,
            longest=self.longest,
            special=special,
        )


risks = Kinds[RiskConfig]("risk")
AnyRisk = Annotated[RiskConfig, risks]


@risks.register
class BleuRiskConfig(RiskConfig):
    """1 - BLEU of the sentence, over the model's tokens."""

    cost = bleu_cost
    kind: Literal["bleu"] = "bleu"


@risks.register
class WerRiskConfig(RiskConfig):
    """Edits of tokens for each token of the reference: the word error rate where tokens are words or phonemes."""

    cost = wer_cost
    kind: Literal["wer"] = "wer"
