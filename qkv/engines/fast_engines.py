"""The engines besides PyTorch: what each supports, and how it is created from a model or an export."""

import importlib
import importlib.util
import tempfile
from pathlib import Path
from typing import Annotated, Protocol

import torch

from qkv.config import Names
from qkv.core.devices import CPU
from qkv.core.errors import QkvError
from qkv.engines.base import DecodeRequest, Engine
from qkv.export.int8 import choose_backend
from qkv.layers.positions.rope import RopeConfig
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.models.transformer.config import TransformerConfig


class FastEngine(Protocol):
    """A fast engine, before it is created."""

    name: str
    export: str
    """The format of the folders that it runs, as their manifests and `qkv export --to` call it."""
    extra: str
    """The extra of this package that installs it."""
    packages: tuple[str, ...]
    """Required to create it from a model; an export needs only the last one."""
    devices: tuple[str, ...] = ("cpu",)
    """The kinds of device that it runs on."""

    def suits(self, config: SavedConfig) -> bool:
        """Whether it is the default for such a model."""

    def reason_against_device(self, device: torch.device) -> str | None:
        """Why it does not run there."""
        if device.type in self.devices:
            return None
        return f"it does not run on the device {device}; use the engine torch, or the device cpu"

    def reasons_against_model(self, config: SavedConfig, request: DecodeRequest, longest: int | None) -> list[str]:
        """Why it cannot run such a model; sources longer than `longest` are cut before (None: they are not)."""

    def reasons_against_request(self, config: SavedConfig, request: DecodeRequest) -> list[str]:
        """Why it does not support the request."""

    def approximates(self, request: DecodeRequest) -> bool:
        """Whether its search may differ from ours, so that outputs should be compared."""

    def open(self, folder: Path, threads: int, device: torch.device = CPU) -> Engine:
        """From an export."""

    def make(self, saved: SavedModel, threads: int, device: torch.device = CPU) -> Engine:
        """From a model."""


class CTranslate2(FastEngine):
    """For autoregressive models."""

    name = "ctranslate2"
    export = "ctranslate2"
    extra = "fast"
    packages = ("ctranslate2",)
    devices = ("cpu", "cuda")

    def reason_against_device(self, device: torch.device) -> str | None:
        if device.type != "cuda":
            return super().reason_against_device(device)
        import ctranslate2

        found = ctranslate2.get_cuda_device_count()
        if (device.index or 0) < found:
            return None
        return (
            f"its CUDA libraries find {found} devices here, so it does not run on {device}; use the engine torch, or "
            "the device cpu"
        )

    def suits(self, config: SavedConfig) -> bool:
        return config.seq2seq.decoder.autoregressive

    def reasons_against_model(self, config: SavedConfig, request: DecodeRequest, longest: int | None) -> list[str]:
        from qkv.export.ctranslate2 import ROWS, ctranslate2_obstacles

        reasons = ctranslate2_obstacles(config)
        if isinstance(config.model, TransformerConfig) and isinstance(config.model.positions, RopeConfig):
            # Models with them were published with outputs of the engine torch, which shall not change by themselves.
            reasons.append("it runs rotary positions from an export alone; write one with qkv export --to ctranslate2")
        if config.model.limits.src is None:
            reasons += _too_long(longest, ROWS, request, ROWS)
        return reasons

    def reasons_against_request(self, config: SavedConfig, request: DecodeRequest) -> list[str]:
        from qkv.engines.ctranslate2_engine import ctranslate2_request_obstacles

        return ctranslate2_request_obstacles(request)

    def approximates(self, request: DecodeRequest) -> bool:
        from qkv.engines.ctranslate2_engine import approximates

        return approximates(request.search)

    def open(self, folder: Path, threads: int, device: torch.device = CPU) -> Engine:
        from qkv.engines.ctranslate2_engine import CTranslate2Engine

        return CTranslate2Engine(folder, threads, device)

    def make(self, saved: SavedModel, threads: int, device: torch.device = CPU) -> Engine:
        from qkv.export.ctranslate2 import export_ctranslate2

        # The engine has read it into memory: the files are no longer needed.
        with tempfile.TemporaryDirectory(prefix="qkv-") as temporary:
            folder = Path(temporary) / "model"
            export_ctranslate2(saved, folder)
            return self.open(folder, threads, device)


class OnnxRuntime(FastEngine):
    """For non-autoregressive models."""

    name = "onnxruntime"
    export = "onnx"
    extra = "onnx"
    packages = ("onnx", "onnxruntime")

    def suits(self, config: SavedConfig) -> bool:
        return not config.seq2seq.decoder.autoregressive

    def reasons_against_model(self, config: SavedConfig, request: DecodeRequest, longest: int | None) -> list[str]:
        from qkv.export.onnx import ROWS, longest_source, onnx_obstacles

        reasons = onnx_obstacles(config)
        if config.model.limits.src is None:
            reasons += _too_long(longest, longest_source(config), request, ROWS)
        return reasons

    def reasons_against_request(self, config: SavedConfig, request: DecodeRequest) -> list[str]:
        from qkv.engines.onnx_engine import onnx_request_obstacles

        return onnx_request_obstacles(request, config.seq2seq.decoder.kind)

    def approximates(self, request: DecodeRequest) -> bool:
        return False

    def open(self, folder: Path, threads: int, device: torch.device = CPU) -> Engine:
        from qkv.engines.onnx_engine import OnnxEngine

        return OnnxEngine.from_folder(folder, threads)

    def make(self, saved: SavedModel, threads: int, device: torch.device = CPU) -> Engine:
        from qkv.engines.onnx_engine import OnnxEngine
        from qkv.export.onnx import as_graph

        return OnnxEngine(as_graph(saved), threads)


engines = Names[FastEngine | None]("engine")
"""By name; None: PyTorch, and the choice between it and the one that is made for a model."""
engines.register("auto", None)
engines.register("torch", None)
engines.register(CTranslate2.name, CTranslate2())
engines.register(OnnxRuntime.name, OnnxRuntime())
EngineName = Annotated[str, engines]
"""auto: CTranslate2, or ONNX Runtime for a model that writes all tokens at once, where it is installed and can do what
is asked, else torch."""


def fast_engines() -> list[FastEngine]:
    """Those besides PyTorch."""
    return [engine for engine in map(engines.__getitem__, engines) if engine is not None]


def default_engine(config: SavedConfig) -> FastEngine | None:
    """The first that is made for such a model."""
    return next((engine for engine in fast_engines() if engine.suits(config)), None)


def engine_for_export(what: str) -> FastEngine | None:
    """What runs the folders of an export format."""
    return next((engine for engine in fast_engines() if engine.export == what), None)


def make_engine(fast: FastEngine, saved: SavedModel, threads: int, device: torch.device = CPU) -> Engine:
    """Of a model; raises QkvError if it cannot be made, whatever the reason."""
    choose_backend()
    try:
        for package in fast.packages:
            # A broken installation fails here.
            importlib.import_module(package)
        return fast.make(saved, threads, device)
    except (ImportError, OSError, RuntimeError) as error:
        raise QkvError(f"the engine {fast.name} cannot be made ({error}); use the engine torch") from error


def missing_packages(fast: FastEngine, exported: bool) -> list[str]:
    """Why it cannot run here."""
    needed = fast.packages[-1:] if exported else fast.packages
    if all(importlib.util.find_spec(package) is not None for package in needed):
        return []
    return [f"it is not installed; pip install 'qkv[{fast.extra}]'"]


def _too_long(longest: int | None, reads: int, request: DecodeRequest, writes: int) -> list[str]:
    """The exported table of positions is finite, though the model has no limit."""
    if longest is None or longest > reads:
        return [f"it reads {reads:,} tokens at most, and max_src_tokens allows more"]
    if request.search.limits(longest).max_length > writes:
        return [f"it writes {writes:,} tokens at most, and the longest source may ask for more"]
    return []
