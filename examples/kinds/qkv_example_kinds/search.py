"""A search: greedy, but an output ends only when the model is sure that it should."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.search.base import Search, SearchTask, SteppedSearch, StepwiseSearch, searches
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, first_max
from qkv.search.protocol import StepFunction
from qkv.search.walk import Walker, refuse_required, walk

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel


@searches.register
class CautiousConfig(SteppedSearch):
    """The most probable next token; END only where its probability is at least `end`."""

    kind: Literal["cautious"] = "cautious"
    end: float = Field(default=0.5, ge=0, le=1)
    """The least probability of END at which an output ends."""

    def build(self, saved: "SavedModel | None" = None) -> Search:
        return self.within_window(CautiousSearch(self.end, self.no_repeat_ngram))


class CautiousSearch(StepwiseSearch):
    """Greedy search that takes END only where p(END) is at least `end`."""

    def __init__(self, end: float = 0.5, no_repeat_ngram: int = 0) -> None:
        self.end = end
        self.no_repeat_ngram = no_repeat_ngram

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        refuse_required(task, "cautious")
        least, eos = math.log(max(self.end, 1e-30)), task.special.eos

        def choose(log_probs: Tensor, rows: Sequence[Walker]) -> tuple[list[int], list[float]]:
            unsure = log_probs[:, eos] < least
            allowed = log_probs.clone()
            allowed[unsure, eos] = -torch.inf
            return first_max(allowed)

        return walk(steps, task, Rules(task, self.no_repeat_ngram), 1, choose)
