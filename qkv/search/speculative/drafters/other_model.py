"""A non-autoregressive model drafts in one pass, an autoregressive one verifies (Xia 2023)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from qkv.core.errors import UsageError
from qkv.models.base import Parallel
from qkv.models.saved.folder import SavedModel, load_model
from qkv.search.base import SearchTask
from qkv.search.refinement.search import RefineConfig, RefineSearch
from qkv.search.speculative.drafters.base import BlockLength, DrafterConfig, Drafts, DraftSources, drafters
from qkv.search.speculative.drafters.guide import GuidedDrafts
from qkv.text.special import SPECIAL


@drafters.register
class ModelDrafterConfig(DrafterConfig):
    """A non-autoregressive model drafts the whole output."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "model"}

    kind: Literal["model"] = "model"
    path: Path
    """Folder of the model or of its run; it has the vocabulary of the model that verifies."""
    block: BlockLength = 16
    passes: int = Field(default=1, ge=1)
    """Passes of the drafting model; more usually cost more time than they save."""

    def build(self, saved: SavedModel) -> "ModelDrafter":
        other = load_model(self.path)
        other.model.to(saved.model.device)
        if not other.tokenizers.speaks_as(saved.tokenizers):
            raise UsageError(
                f"{self.path}: has another vocabulary than the model it shall draft for; train it with tokenizers: the "
                "tokenizer folder of that model's run"
            )
        parallel = other.model.inference().parallel
        if parallel is None:
            raise UsageError(
                f"{self.path}: is an autoregressive model of the kind {other.config.model.kind}, so it would draft "
                "token by token; give a transformer with decoder ctc"
            )
        search = RefineConfig(passes=self.passes).within(other.config.length_limit)
        return ModelDrafter(parallel(), search, len(other.tokenizers.src))


class ModelDrafter:
    """Its draft is followed from the beginning, and resumed after each mistake.

    Ids from `src_vocab` on, which the verifying model may copy, are unknown to it.
    """

    def __init__(self, model: Parallel, search: RefineConfig, src_vocab: int) -> None:
        self.model = model
        self.search = search
        self.src_vocab = src_vocab
        self.refine = RefineSearch(search.passes)
        self.src_limit, self.tgt_limit = model.limits.src, model.limits.tgt

    def begin(self, sources: DraftSources) -> Drafts:
        """No draft for a source that is too long for the drafting model."""
        lengths: list[int] = sources.src_keep.sum(dim=1).tolist()
        rows = [row for row, length in enumerate(lengths) if self.src_limit is None or length <= self.src_limit]
        drafts: list[list[int]] = [[] for _ in lengths]
        if rows:
            width = max(lengths[row] for row in rows)
            limits = [self.search.limits(lengths[row], self.tgt_limit) for row in rows]
            src = sources.src[rows, :width]
            src = src.masked_fill(src >= self.src_vocab, SPECIAL.unk)
            task = SearchTask(src, sources.src_keep[rows, :width], SPECIAL, limits)
            for row, (best, *_) in zip(rows, self.refine.fill(self.model, task), strict=True):
                drafts[row] = [*best.tokens, SPECIAL.eos]
        return GuidedDrafts(drafts)
