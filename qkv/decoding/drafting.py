"""Greedy search with drafts: which drafter a model has, and the two at work together."""

from pathlib import Path

from qkv.decoding.blocks import BlockFunction, ModelBlocks
from qkv.decoding.draft_loop import draft_and_verify
from qkv.decoding.draft_pace import AdaptivePace, FullPace, Pace
from qkv.decoding.drafters import DrafterConfig, drafters
from qkv.decoding.drafters.other_model import ModelDrafterConfig
from qkv.decoding.drafters.own import OwnConfig
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.model_set import ModelSet
from qkv.decoding.search import SearchConfig, SearchTask
from qkv.errors import ArgumentError, UsageError
from qkv.files import MANIFEST
from qkv.models.folder import SavedConfig, SavedModel
from qkv.text.given import type_name

DRAFTER = "drafter"
"""The folder inside a model's folder that holds the model which drafts for it."""
DraftLike = DrafterConfig | Path | str | None
"""A drafter, the word for one, or the folder of a model that drafts. auto: what the model carries; none or None: no."""


class Drafting:
    """A model and its drafter, ready to decode. It holds the weights that they have now."""

    def __init__(self, config: DrafterConfig, saved: SavedModel) -> None:
        self.model = saved.model
        self.drafter = config.build(saved)
        self.pace: Pace = AdaptivePace(config.block) if config.adaptive else FullPace(config.block)
        self._blocks: dict[bool, BlockFunction] = {}

    def run(self, search: GreedyConfig, task: SearchTask, attention: bool) -> list[list[Hypothesis]]:
        """What `search.run` gives, in fewer passes."""
        if attention not in self._blocks:
            self._blocks[attention] = ModelBlocks(self.model, attention)
        return draft_and_verify(self._blocks[attention], self.drafter, self.pace, task, search.rules(task))


def require_draft(draft: object) -> None:
    """Refuse what is no `DraftLike`."""
    if not isinstance(draft, DraftLike):
        raise ArgumentError(f"draft: must be a drafter, a word or a folder, not {type_name(draft)}")


def choose_draft(draft: DraftLike, models: ModelSet, search: SearchConfig) -> DrafterConfig | None:
    """The drafter for these models and this search; raises UsageError if one was asked for and cannot be."""
    if draft is None or draft == "none":
        return None
    possible = isinstance(search, GreedyConfig) and len(models) == 1 and not models.exported
    if draft == "auto":
        return _carried(models) if possible else None
    if not isinstance(search, GreedyConfig):
        kind = type(search).model_fields["kind"].default
        raise UsageError(f"drafts speed up the search greedy, not {kind}; add search.kind=greedy or leave it out")
    if len(models) > 1:
        raise UsageError("drafts are verified by one model, not by several that vote; leave out the one or the other")
    if models.exported:
        raise UsageError(f"{models.folders[0]}: was exported, and drafts need the model that it was made from")
    require_autoregressive(models.config)
    if isinstance(draft, DrafterConfig):
        return draft
    if draft in drafters.names() and draft != ModelDrafterConfig.model_fields["kind"].default:
        return drafters[str(draft)]()
    return ModelDrafterConfig(path=Path(draft))


def require_autoregressive(config: SavedConfig) -> None:
    """Raises UsageError if there is no next token that could be drafted."""
    decoder = config.model.decoder
    if not decoder.autoregressive:
        raise UsageError(f"a model of the kind {decoder.kind} takes no drafts: it writes all tokens at once already")


def _carried(models: ModelSet) -> DrafterConfig | None:
    """The drafter that the model's folder carries, or its own head."""
    for folder in models.folders:
        if (folder / DRAFTER / MANIFEST).is_file():
            return ModelDrafterConfig(path=folder / DRAFTER)
    return OwnConfig() if models.config.model.draft is not None else None
