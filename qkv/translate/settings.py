"""The settings for decoding, as `key.sub=value`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from qkv.config import Config, with_overrides
from qkv.config.base import WRITTEN_BY_QKV
from qkv.config.overrides import apply_overrides
from qkv.core.errors import UsageError
from qkv.engines.fast_engines import EngineName
from qkv.engines.torch_engine import DecodingPrecision
from qkv.search.base import searches
from qkv.search.beam import BeamConfig
from qkv.search.default import default_settings
from qkv.search.kinds import AnySearch
from qkv.search.speculative.drafters import AnyDrafter, drafters
from qkv.translate.translator import MAX_SRC_TOKENS, Translator


class TranslationConfig(Config):
    """How texts are translated."""

    search: AnySearch = BeamConfig()
    """How an output is found."""
    batch_tokens: int | None = Field(default=None, ge=1)
    """The most source tokens of a batch, padding included, counted once for each hypothesis; null: the engine's
    default."""
    max_src_tokens: int | None = Field(default=MAX_SRC_TOKENS, ge=2)
    """A longer source, END included, is split; null: only what the model cannot read."""
    split_long: bool = True
    """Split where a sentence ends, else at clause marks, else at spaces; false: cut the rest off."""
    overlap: bool = False
    """Read each part of a split source together with the preceding one."""
    draft: AnyDrafter | None = None
    """What drafts for greedy search, so that it is faster with the same output; null: what the model carries."""

    def translator(
        self,
        models: Sequence[Path],
        engine: EngineName = "auto",
        workers: int | Literal["auto"] = "auto",
        draft: str = "auto",
        device: str = "auto",
        precision: DecodingPrecision = "fp32",
        static_shapes: bool = False,
    ) -> Translator:
        """A translator with these settings; `draft` is used if they name no drafter."""
        return Translator(
            models,
            engine,
            self.search,
            workers,
            self.batch_tokens,
            self.max_src_tokens,
            self.split_long,
            self.overlap,
            self.draft or draft,
            device,
            precision,
            static_shapes,
        )


def translation_config(overrides: Sequence[str], model: Path | None = None) -> TranslationConfig:
    """The defaults, or the model's own if one is given, with the overrides applied; raises UsageError."""
    search, context = _search_before(overrides, model)
    return with_overrides(TranslationConfig, {"search": search}, overrides, "command line", context)


def _search_before(overrides: Sequence[str], model: Path | None) -> tuple[dict[str, Any], str | None]:
    """The settings that the overrides change: those of the model, or the defaults if they name a kind of search; and
    the context in which they are validated.

    If a kind is named, the model is not read, so that errors in the overrides are reported first.
    """
    search = apply_overrides({}, overrides).get("search")
    kind = search.get("kind") if isinstance(search, dict) else search
    if kind is not None or model is None:
        return {"kind": kind or "beam"}, None
    given = search if isinstance(search, dict) else {}
    # The same for nested kinds: a length penalty whose kind is named keeps no keys of another kind.
    named = {key for key, value in given.items() if isinstance(value, dict) and "kind" in value}
    return {key: value for key, value in default_settings(model).items() if key not in named}, WRITTEN_BY_QKV


def with_beam(overrides: Sequence[str], size: int | None, model: Path | None = None) -> list[str]:
    """The overrides followed by that of --beam; raises UsageError if they choose a search without a beam."""
    if size is None:
        return [*overrides]
    kind = _search_before(overrides, model)[0]["kind"]
    if kind == "refine":
        raise UsageError(
            f"--beam {size}: a model that writes all at once has no such beam; use search.beam={size} for ctc, "
            f"search.length_beam={size} for nat and mask_predict"
        )
    if kind in searches.names() and not issubclass(searches[kind], BeamConfig):
        raise UsageError(f"--beam {size}: the search kind {kind} has no beam; leave out the one or the other")
    return [*overrides, f"search.size={size}"]


def with_draft(overrides: Sequence[str], draft: str) -> list[str]:
    """The overrides and that of --draft, a name or a folder. Drafts make greedy search the default."""
    if draft in ("auto", "none"):
        return [*overrides]
    words = [name for name in drafters.names() if name != "model"]
    if draft in words:
        return ["search.kind=greedy", *overrides, f"draft.kind={draft}"]
    if not (draft and Path(draft).is_dir()):
        raise UsageError(f"--draft {draft}: is no folder, and none of the words {', '.join(words)}, auto and none")
    return ["search.kind=greedy", *overrides, "draft.kind=model", f"draft.path={draft}"]
