"""Greedy search with a drafter."""

from pathlib import Path

from qkv.core.errors import ArgumentError, UsageError
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.search.base import SearchTask
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.speculative.blocks import BlockFunction, ModelBlocks
from qkv.search.speculative.drafters import DrafterConfig
from qkv.search.speculative.loop import draft_and_verify
from qkv.search.speculative.pace import AdaptivePace, DraftPace, FullPace
from qkv.text.given import type_name

DRAFTER = "drafter"
"""The folder inside a model's folder that holds the model which drafts for it."""
DraftLike = DrafterConfig | Path | str | None
"""A drafter, the word for one, or the folder of a model that drafts. auto: what the model carries; none or None: no."""


class Drafting:
    """A model and its drafter, ready to decode. It copies their weights."""

    def __init__(self, config: DrafterConfig, saved: SavedModel) -> None:
        self.model = saved.model
        self.drafter = config.build(saved)
        self.pace: DraftPace = AdaptivePace(config.block) if config.adaptive else FullPace(config.block)
        self._blocks: dict[bool, BlockFunction] = {}

    def run(self, search: GreedyConfig, task: SearchTask, attention: bool) -> list[list[Hypothesis]]:
        """The same result as `search.run`, in fewer passes."""
        if attention not in self._blocks:
            self._blocks[attention] = ModelBlocks(self.model, attention)
        return draft_and_verify(self._blocks[attention], self.drafter, self.pace, task, search.rules(task))


def require_draft(draft: object) -> None:
    """Reject anything that is not a `DraftLike`."""
    if not isinstance(draft, DraftLike):
        raise ArgumentError(f"draft: must be a drafter, a word or a folder, not {type_name(draft)}")


def require_autoregressive(config: SavedConfig) -> None:
    """Raises UsageError if there is no next token that could be drafted."""
    decoder = config.model.decoder
    if not decoder.autoregressive:
        raise UsageError(f"a model of the kind {decoder.kind} takes no drafts: it writes all tokens at once already")
