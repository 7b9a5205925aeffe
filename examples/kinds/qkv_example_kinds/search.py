"""A search: greedy, but an output ends only when the model is sure that it should."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.search.base import SearchTask, SteppedSearch, searches
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, first_max
from qkv.search.steps import StepFunction
from qkv.search.walk import Walker, refuse_required, walk


@searches.register
class CautiousConfig(SteppedSearch):
    """The most probable next token; END only where its probability is at least `end`."""

    kind: Literal["cautious"] = "cautious"
    end: float = Field(default=0.5, ge=0, le=1)
    """The least probability of END at which an output ends."""

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        refuse_required(task, self.kind)
        least, eos = math.log(max(self.end, 1e-30)), task.special.eos

        def choose(log_probs: Tensor, rows: Sequence[Walker]) -> tuple[list[int], list[float]]:
            unsure = log_probs[:, eos] < least
            allowed = log_probs.clone()
            allowed[unsure, eos] = -torch.inf
            return first_max(allowed)

        return walk(steps, task, Rules(task, self.no_repeat_ngram), 1, choose)
