"""Which engine runs a model: the fast one where it can do what is asked, else PyTorch."""

import importlib.util
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Literal

from qkv.decoding.engine import DecodeRequest, Engine
from qkv.decoding.model_set import ModelSet
from qkv.decoding.torch_engine import TorchEngine
from qkv.errors import UsageError

EngineName = Literal["auto", "torch", "ctranslate2"]
"""auto: CTranslate2 where it is installed and can do what is asked, else torch."""


class Engines:
    """The engines of a set of models, each made when it is first wanted."""

    def __init__(self, models: ModelSet, wanted: EngineName, threads: int) -> None:
        self.models = models
        self.wanted = wanted
        self.threads = threads
        if models.exported and wanted == "torch":
            raise UsageError(
                f"{models.folders[0]}: was exported for the engine ctranslate2; give the model that it was made from"
            )

    def choose(self, request: DecodeRequest) -> Engine:
        """The engine for requests like this one."""
        if self.wanted == "torch":
            return self.torch
        reason = self._obstacle(request) or self.fast.refuses(request)
        if reason is None:
            return self.fast
        if self.wanted == "auto" and not self.models.exported:
            return self.torch
        raise UsageError(f"the engine ctranslate2 cannot do this: {reason}")

    def _obstacle(self, request: DecodeRequest) -> str | None:
        """Why it is not worth exporting the models."""
        if importlib.util.find_spec("ctranslate2") is None:
            return "it is not installed; pip install 'qkv[fast]'"
        if self.models.exported:
            return None
        if len(self.models) > 1:
            return "several models vote; use the engine torch"
        from qkv.decoding.ctranslate2_engine import reasons_against_search
        from qkv.interop.ctranslate2 import reasons_against

        reasons = reasons_against_search(request.search, request.nbest)
        reasons += reasons_against(self.models.loaded[0].config)
        return f"{'; '.join(reasons)}; use the engine torch" if reasons else None

    @cached_property
    def torch(self) -> Engine:
        return TorchEngine([saved.model for saved in self.models.loaded])

    @cached_property
    def fast(self) -> Engine:
        from qkv.decoding.ctranslate2_engine import CTranslate2Engine
        from qkv.interop.ctranslate2 import export_ctranslate2

        if self.models.exported:
            return CTranslate2Engine(self.models.folders[0], self.threads)
        # It is in memory as soon as the engine is there: the files are needed no longer.
        with tempfile.TemporaryDirectory(prefix="qkv-") as temporary:
            folder = Path(temporary) / "model"
            export_ctranslate2(self.models.loaded[0], folder)
            return CTranslate2Engine(folder, self.threads)
