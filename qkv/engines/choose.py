"""The choice of an engine: a fast one if it supports the request, else PyTorch."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property

from qkv.core.devices import CPU
from qkv.core.errors import QkvError, UsageError
from qkv.engines.agreement import mean_scores
from qkv.engines.base import DecodeRequest, Engine
from qkv.engines.fast_engines import EngineName, FastEngine, default_engine, engines, make_engine, missing_packages
from qkv.engines.model_set import ModelSet
from qkv.engines.torch_engine import PLAIN, TorchEngine, TorchSettings


class Engines:
    """The engines of a set of models, each created on first use.

    `threads` of the fast one run at once; sources longer than `max_src_tokens` are cut before (None: they are not).
    """

    def __init__(
        self,
        models: ModelSet,
        wanted: EngineName,
        threads: int,
        max_src_tokens: int | None,
        settings: TorchSettings = PLAIN,
    ) -> None:
        self.models = models
        self.wanted = wanted
        self.threads = threads
        self.max_src_tokens = max_src_tokens
        self.settings = settings
        self._fast: Engine | None = None
        if models.exported and wanted not in ("auto", models.exported):
            raise UsageError(
                f"{models.folders[0]}: was exported for the engine {models.exported}; give the model that it was made "
                "from"
            )

    def choose(self, request: DecodeRequest) -> Engine:
        """The engine for requests like this one."""
        by_itself = self.wanted == "auto" and not self.models.exported
        if self.wanted == "torch" or self.kind is None or (by_itself and self.models.device != CPU):
            return self.torch
        reason = self._obstacle(self.kind, request)
        if reason is not None and by_itself:
            return self.torch
        if reason is not None:
            raise UsageError(f"the engine {self.kind.name} cannot do this: {reason}")
        try:
            return self.fast(self.kind)
        except QkvError as error:
            if not by_itself:
                raise
            warnings.warn(f"the slower engine torch is used: {error}", stacklevel=2)
            self.wanted = "torch"
            return self.torch

    def named(self, name: EngineName) -> Engine:
        """The engine of this name, which another process has chosen for the same models."""
        kind = engines[name]
        return self.torch if kind is None else self.fast(kind)

    def compare(self, engine: Engine, request: DecodeRequest, sources: Callable[[], Sequence[list[int]]]) -> Engine:
        """`engine`, or torch if the search of `engine` is worse on some of `sources`; an export was compared before."""
        if engine.name == "torch" or self.models.exported or self.kind is None or not self.kind.approximates(request):
            return engine
        scores = mean_scores(engine, self.torch, sources(), request)
        if not scores.worse:
            return engine
        said = f"the search of the engine {engine.name} is worse here: some outputs have {scores}"
        if self.wanted != "auto":
            warnings.warn(f"{said}; use the engine torch, or search.stop=exact", stacklevel=2)
            return engine
        warnings.warn(f"the slower engine torch is used, because {said}", stacklevel=2)
        self.wanted = "torch"
        return self.torch

    @cached_property
    def kind(self) -> FastEngine | None:
        """The requested fast engine, or the default one of the model; None: there is none."""
        return engines[self.models.exported or self.wanted] or default_engine(self.models.config)

    def _obstacle(self, kind: FastEngine, request: DecodeRequest) -> str | None:
        """Why the models cannot be exported for it."""
        if self.settings != PLAIN:
            return "precision and static shapes are settings of the engine torch; leave them out, or use that engine"
        if missing := missing_packages(kind, bool(self.models.exported)):
            return missing[0]
        if reason := kind.reason_against_device(self.models.device):
            return reason
        config = self.models.config
        reasons = [] if self.models.exported else self._reasons_against_models(kind, request)
        # A search is meaningless for a model that it does not support.
        if kind is default_engine(config):
            reasons = kind.reasons_against_request(config, request) + reasons
        if self.models.exported:
            return "; ".join(reasons) or None
        return f"{'; '.join(reasons)}; use the engine torch" if reasons else None

    def _reasons_against_models(self, kind: FastEngine, request: DecodeRequest) -> list[str]:
        if len(self.models) > 1:
            return ["the models form an ensemble"]
        return kind.reasons_against_model(self.models.loaded[0].config, request, self.max_src_tokens)

    @cached_property
    def torch(self) -> Engine:
        loaded = self.models.loaded
        return TorchEngine([saved.model for saved in loaded], loaded[0], self.settings)

    def fast(self, kind: FastEngine) -> Engine:
        """The engine of this kind, created on first use."""
        if self._fast is None:
            exported = self.models.exported is not None
            self._fast = (
                kind.open(self.models.folders[0], self.threads, self.models.device)
                if exported
                else make_engine(kind, self.models.loaded[0], self.threads, self.models.device)
            )
        return self._fast
