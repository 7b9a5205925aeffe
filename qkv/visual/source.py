"""Encodes the text that a picture shows."""

import sys

from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedModel
from qkv.text.special import SPECIAL


def require_utf8(text: str) -> None:
    """Raise UsageError for a text that holds bytes of another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("the text is not valid UTF-8; convert it, for example by iconv") from None


def source_ids(saved: SavedModel, text: str, max_src_tokens: int | None = None) -> list[int]:
    """The ids of a text as the model reads it, END included; rejects what a translator would truncate or skip."""
    ids = saved.tokenizers.src.encode(text)
    if not ids:
        raise UsageError("the text is empty; give one to translate")
    limits = [limit for limit in (max_src_tokens, saved.model.limits.src) if limit is not None]
    longest = min(limits, default=sys.maxsize)
    if len(ids) >= longest:
        raise UsageError(
            f"the text has {len(ids):,} tokens, and {longest - 1:,} can be read at most; give a shorter one"
        )
    return [*saved.tokenizers.linked(text, "", ids, [])[0], SPECIAL.eos]
