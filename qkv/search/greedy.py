"""Greedy search."""

from typing import TYPE_CHECKING, Literal

from qkv.core.errors import UsageError
from qkv.search.base import Search, SearchTask, SteppedSearch, StepwiseSearch, searches
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, first_max
from qkv.search.protocol import StepFunction
from qkv.search.walk import refuse_required, walk

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel


@searches.register
class GreedyConfig(SteppedSearch):
    """The most probable next token at each step, until END; ties go to the lowest id. The score is log p(Y | X)."""

    kind: Literal["greedy"] = "greedy"

    def build(self, saved: "SavedModel | None" = None) -> Search:
        return self.within_window(GreedySearch(self.no_repeat_ngram))


class GreedySearch(StepwiseSearch):
    """The most probable next token again and again, until END; of equals the lowest id."""

    def __init__(self, no_repeat_ngram: int = 0) -> None:
        self.no_repeat_ngram = no_repeat_ngram

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        return walk(
            steps, task, greedy_rules(task, self.no_repeat_ngram), 1, lambda log_probs, rows: first_max(log_probs)
        )


def greedy_rules(task: SearchTask, no_repeat_ngram: int = 0) -> Rules:
    """What may follow; raises UsageError if the task asks for what greedy search cannot do."""
    if task.nbest > 1:
        raise UsageError(f"greedy search gives one output, not {task.nbest}: use the search kind beam")
    refuse_required(task, "greedy")
    return Rules(task, no_repeat_ngram)
