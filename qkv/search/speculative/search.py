"""Speculative decoding: greedy search with a drafter."""

from typing import Literal

from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedModel
from qkv.search.base import Search, SearchModel, SearchTask, SteppedSearch, searches
from qkv.search.greedy import GreedyConfig, greedy_rules
from qkv.search.hypothesis import Hypothesis
from qkv.search.speculative.drafters import AnyDrafter, Drafter, DrafterConfig
from qkv.search.speculative.drafters.jacobi import JacobiConfig
from qkv.search.speculative.loop import AdaptivePace, DraftPace, FullPace, draft_and_verify


@searches.register
class SpeculativeConfig(SteppedSearch):
    """The output of greedy search in fewer passes: a drafter guesses what follows, and the model verifies it."""

    kind: Literal["speculative"] = "speculative"
    drafter: AnyDrafter = JacobiConfig()
    """What guesses."""

    @property
    def missing(self) -> str:
        return "speculative decoding needs a drafter, which only a Translator has; use greedy: its output is the same"

    def build(self, saved: SavedModel | None = None) -> Search:
        if saved is None:
            raise UsageError(self.missing)
        drafter = self.drafter
        pace: DraftPace = AdaptivePace(drafter.block) if drafter.adaptive else FullPace(drafter.block)
        return self.within_window(SpeculativeSearch(drafter.build(saved), pace, self.no_repeat_ngram))


class SpeculativeSearch:
    """Greedy search with a drafter.

    Args:
        drafter: What guesses the next tokens.
        pace: How many tokens it guesses at a time.
        no_repeat_ngram: No sequence of so many tokens occurs twice in an output; 0: no such rule.
    """

    tgt_limit: int | None = None

    def __init__(self, drafter: Drafter, pace: DraftPace, no_repeat_ngram: int = 0) -> None:
        self.drafter, self.pace, self.no_repeat_ngram = drafter, pace, no_repeat_ngram

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        rules = greedy_rules(task, self.no_repeat_ngram)
        return draft_and_verify(model.blocks(task.attention), self.drafter, self.pace, task, rules)


def speculative(search: GreedyConfig, drafter: DrafterConfig) -> SpeculativeConfig:
    """The same search with a drafter."""
    return SpeculativeConfig(**{**dict(search), "kind": "speculative", "drafter": drafter})
