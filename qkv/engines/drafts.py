"""The choice of a drafter for a model and a search."""

from pathlib import Path

from qkv.core.errors import UsageError
from qkv.core.files import MANIFEST
from qkv.engines.model_set import ModelSet
from qkv.search.base import SearchConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.speculative.drafters import DrafterConfig, drafters
from qkv.search.speculative.drafters.other_model import ModelDrafterConfig
from qkv.search.speculative.drafters.own import OwnConfig
from qkv.search.speculative.drafting import DRAFTER, DraftLike, require_autoregressive


def choose_draft(draft: DraftLike, models: ModelSet, search: SearchConfig) -> DrafterConfig | None:
    """The drafter for these models and this search; raises UsageError if one was requested and is not possible."""
    if draft is None or draft == "none":
        return None
    possible = isinstance(search, GreedyConfig) and len(models) == 1 and not models.exported
    if draft == "auto":
        return _carried(models) if possible else None
    if not isinstance(search, GreedyConfig):
        kind = type(search).model_fields["kind"].default
        raise UsageError(f"drafts speed up the search greedy, not {kind}; add search.kind=greedy or leave it out")
    if models.exported:
        raise UsageError(f"{models.folders[0]}: was exported, and drafts need the model that it was made from")
    require_autoregressive(models.config)
    if isinstance(draft, DrafterConfig):
        return draft
    if draft in drafters.names() and draft != ModelDrafterConfig.model_fields["kind"].default:
        return drafters[str(draft)]()
    return ModelDrafterConfig(path=Path(draft))


def _carried(models: ModelSet) -> DrafterConfig | None:
    """The drafter that the model's folder carries, or its own head."""
    for folder in models.folders:
        if (folder / DRAFTER / MANIFEST).is_file():
            return ModelDrafterConfig(path=folder / DRAFTER)
    return OwnConfig() if models.config.seq2seq.draft is not None else None
