"""Drafters: one file per kind."""

from typing import Annotated

from qkv.search.speculative.drafters import input_guided, jacobi, other_model, own
from qkv.search.speculative.drafters.base import Checked, Drafter, DrafterConfig, Drafts, DraftSources, drafters

AnyDrafter = Annotated[DrafterConfig, drafters]

__all__ = [
    "AnyDrafter",
    "Checked",
    "DraftSources",
    "Drafter",
    "DrafterConfig",
    "Drafts",
    "drafters",
    "input_guided",
    "jacobi",
    "other_model",
    "own",
]
