"""Which engine runs a model: the fast one where it can do what is asked, else PyTorch."""

import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal

from qkv.decoding.drafters import DrafterConfig
from qkv.decoding.drafting import Drafting
from qkv.decoding.engine import DecodeRequest, Engine
from qkv.decoding.model_set import ModelSet
from qkv.decoding.search import SearchConfig
from qkv.decoding.torch_engine import TorchEngine
from qkv.errors import QkvError, UsageError

EngineName = Literal["auto", "torch", "ctranslate2"]
"""auto: CTranslate2 where it is installed and can do what is asked, else torch."""


class Engines:
    """The engines of a set of models, each made when it is first wanted.

    `threads` of the fast one run at once; sources longer than `max_src_tokens` are cut before (None: they are not).
    """

    def __init__(
        self,
        models: ModelSet,
        wanted: EngineName,
        threads: int,
        max_src_tokens: int | None,
        draft: Callable[[], DrafterConfig | None] = lambda: None,
    ) -> None:
        self.models = models
        self.wanted = wanted
        self.threads = threads
        self.max_src_tokens = max_src_tokens
        self._draft = draft
        if models.exported and wanted == "torch":
            raise UsageError(
                f"{models.folders[0]}: was exported for the engine ctranslate2; give the model that it was made from"
            )

    def choose(self, request: DecodeRequest) -> Engine:
        """The engine for requests like this one."""
        if self.wanted == "torch" or self.draft is not None:
            return self.torch
        reason = self._obstacle(request)
        replaceable = self.wanted == "auto" and not self.models.exported
        if reason is not None and replaceable:
            return self.torch
        if reason is not None:
            raise UsageError(f"the engine ctranslate2 cannot do this: {reason}")
        try:
            return self.fast
        except QkvError as error:
            if not replaceable:
                raise
            warnings.warn(f"the slower engine torch is used: {error}", stacklevel=2)
            self.wanted = "torch"
            return self.torch

    def _obstacle(self, request: DecodeRequest) -> str | None:
        """Why it is not worth exporting the models."""
        if importlib.util.find_spec("ctranslate2") is None:
            return "it is not installed; pip install 'qkv[fast]'"
        from qkv.decoding.ctranslate2_engine import reasons_against_request
        from qkv.interop.ctranslate2 import reasons_against

        reasons = reasons_against_request(request)
        if self.models.exported:
            return "; ".join(reasons) or None
        if len(self.models) > 1:
            reasons.append("several models vote")
        else:
            config = self.models.loaded[0].config
            reasons += reasons_against(config)
            if config.model.positions.limit is None:
                reasons += self._too_long(request.search)
        return f"{'; '.join(reasons)}; use the engine torch" if reasons else None

    def _too_long(self, search: SearchConfig) -> list[str]:
        """The exported table of positions ends where the model itself has no limit."""
        from qkv.interop.ctranslate2 import ROWS

        if self.max_src_tokens is None or self.max_src_tokens > ROWS:
            return [f"it reads {ROWS:,} tokens at most, and max_src_tokens allows more"]
        if search.limits(self.max_src_tokens).max_length > ROWS:
            return [f"it writes {ROWS:,} tokens at most, and the longest source may ask for more"]
        return []

    @cached_property
    def torch(self) -> Engine:
        drafting = None if self.draft is None else Drafting(self.draft, self.models.loaded[0])
        return TorchEngine([saved.model for saved in self.models.loaded], drafting)

    @cached_property
    def draft(self) -> DrafterConfig | None:
        """What drafts for the engine torch; the other one has no drafts, so it is not chosen then."""
        return self._draft()

    @cached_property
    def fast(self) -> Engine:
        from qkv.decoding.ctranslate2_engine import CTranslate2Engine
        from qkv.interop.ctranslate2 import export_ctranslate2

        if self.models.exported:
            return CTranslate2Engine(self.models.folders[0], self.threads)
        try:
            # One that is there but broken says here why.
            importlib.import_module("ctranslate2")
            # It is in memory as soon as the engine is there: the files are needed no longer.
            with tempfile.TemporaryDirectory(prefix="qkv-") as temporary:
                folder = Path(temporary) / "model"
                export_ctranslate2(self.models.loaded[0], folder)
                return CTranslate2Engine(folder, self.threads)
        except (ImportError, OSError, RuntimeError) as error:
            raise QkvError(f"the engine ctranslate2 cannot be made ({error}); use the engine torch") from error
