"""Greedy search."""

from typing import Literal

from qkv.core.errors import UsageError
from qkv.search.base import SearchTask, SteppedSearch, searches
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, first_max
from qkv.search.steps import StepFunction
from qkv.search.walk import refuse_required, walk


@searches.register
class GreedyConfig(SteppedSearch):
    """The most probable next token at each step, until END; ties go to the lowest id. The score is log p(Y | X)."""

    kind: Literal["greedy"] = "greedy"

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        return walk(steps, task, self.rules(task), 1, lambda log_probs, rows: first_max(log_probs))

    def rules(self, task: SearchTask) -> Rules:
        """The constraints of the task; raises UsageError if greedy search does not support it."""
        if task.nbest > 1:
            raise UsageError(f"greedy search gives one output, not {task.nbest}: use the search kind beam")
        refuse_required(task, self.kind)
        return Rules(task, self.no_repeat_ngram)
