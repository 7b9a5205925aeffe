"""Input-guided drafting: the source is the draft (Sun 2021; Ge 2022)."""

from typing import Literal

from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedModel
from qkv.search.speculative.drafters.base import DrafterConfig, Drafts, DraftSources, drafters
from qkv.search.speculative.drafters.guide import GuidedDrafts
from qkv.text.special import SPECIAL


@drafters.register
class InputConfig(DrafterConfig):
    """The rest of the source is the draft: for tasks that mostly copy, such as correction; needs no training."""

    kind: Literal["input"] = "input"

    def build(self, saved: SavedModel) -> "InputGuided":
        if not saved.tokenizers.shared:
            raise UsageError("the drafter input needs one vocabulary for both sides; use jacobi or a trained drafter")
        return InputGuided()


class InputGuided:
    """Follows the source; after a difference it resumes where the last output tokens occur in the source."""

    def begin(self, sources: DraftSources) -> Drafts:
        return GuidedDrafts([[*ids, SPECIAL.eos] for ids in sources.ids()])
