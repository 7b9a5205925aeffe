"""How a drafter is named, and what it needs of a model."""

from pathlib import Path

from qkv.core.errors import ArgumentError, UsageError
from qkv.models.saved.folder import SavedConfig
from qkv.search.speculative.drafters import DrafterConfig
from qkv.text.given import type_name

DRAFTER = "drafter"
"""The folder inside a model's folder that holds the model which drafts for it."""
DraftLike = DrafterConfig | Path | str | None
"""A drafter, the word for one, or the folder of a model that drafts. auto: what the model carries; none or None: no."""


def require_draft(draft: object) -> None:
    """Reject anything that is not a `DraftLike`."""
    if not isinstance(draft, DraftLike):
        raise ArgumentError(f"draft: must be a drafter, a word or a folder, not {type_name(draft)}")


def require_autoregressive(config: SavedConfig) -> None:
    """Raises UsageError if there is no next token that could be drafted."""
    decoder = config.seq2seq.decoder
    if not decoder.autoregressive:
        raise UsageError(f"a model of the kind {decoder.kind} takes no drafts: it writes all tokens at once already")
