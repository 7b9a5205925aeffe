"""Draft heads: one file per kind."""

from typing import Annotated

from qkv.models.draft_heads import blockwise, source
from qkv.models.draft_heads.base import DraftHead, DraftHeadConfig, draft_heads

AnyDraftHead = Annotated[DraftHeadConfig, draft_heads]

__all__ = ["AnyDraftHead", "DraftHead", "DraftHeadConfig", "blockwise", "draft_heads", "source"]
