"""What this machine has."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from importlib import metadata

import torch

from qkv.core.devices import described
from qkv.kernels.memory import available_memory
from qkv.kernels.threads import cores

GIB = 1 << 30
EXTRAS = ("ctranslate2", "onnxruntime", "transformers", "fastapi", "matplotlib", "ray")
"""Optional packages: engines, and what other commands need."""


def facts(device: torch.device) -> dict[str, str]:
    """By name, for people."""
    free, temporary = available_memory(), tempfile.gettempdir()
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    return {
        "qkv": _version("qkv"),
        "Python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "PyTorch": f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "threads": f"{torch.get_num_threads()} of {cores()} cores",
        "memory": "unknown" if free is None else f"{free / GIB:.1f} GiB free",
        "disk": f"{shutil.disk_usage(os.getcwd()).free / GIB:.1f} GiB free here, "
        f"{shutil.disk_usage(temporary).free / GIB:.1f} GiB in {temporary}",
        "compiler": compiler or "none (training.compile needs one)",
        "device": described(device),
        "optional": ", ".join(f"{name} {_version(name)}" for name in EXTRAS if _installed(name)) or "none",
    }


def _installed(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(unknown version)"
