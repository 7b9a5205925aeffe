"""Where the tensors of a run or a translator are: `auto`, `cpu`, `cuda`, `cuda:N`, `mps` or `xpu`."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import torch
from pydantic import AfterValidator
from torch import Tensor

from qkv.core.errors import UsageError

CPU = torch.device("cpu")
NAMES = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?")
WRITTEN = "auto, cpu, cuda, cuda:N (the N-th GPU, from 0), mps or xpu"


def _known(name: str) -> str:
    if not NAMES.fullmatch(name):
        raise ValueError(f"{name!r} is not a device; give {WRITTEN}")
    return name


DeviceName = Annotated[str, AfterValidator(_known)]
"""The name of a device in a config; whether the machine has one is seen when it is used."""


def choose_device(name: str, number: int | None = None) -> torch.device:
    """The device of that name; raises UsageError if this machine has none. `auto`: the accelerator, else the CPU.

    `number` is which of several devices of the kind to take if the name does not say so.
    """
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        name = "cpu" if found is None else found.type
    elif not NAMES.fullmatch(name):
        raise UsageError(f"{name!r} is not a device; give {WRITTEN}")
    kind, _, index = name.partition(":")
    if kind == "cpu":
        return CPU
    device = torch.device(name if index or number is None else f"{kind}:{number}")
    if problem := _problem(device):
        raise UsageError(f"device {device}: {problem}; use device cpu or auto")
    return device


def _problem(device: torch.device) -> str | None:
    """Why the device cannot be used."""
    module = torch.get_device_module(device.type)
    if not module.is_available():
        return f"PyTorch {torch.__version__} finds no {device.type} device on this machine"
    if (device.index or 0) >= module.device_count():
        return f"this machine has {module.device_count()} of that kind, numbered from 0"
    return None


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on the device; it goes to an accelerator from pinned memory, without waiting."""
    if tensor.device == CPU and torch.device(device).type in ("cuda", "xpu"):
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def surely_all(mask: Tensor) -> bool:
    """Whether all are True, as far as that is known without waiting: False on an accelerator."""
    return by_hand(mask) and bool(mask.all())


def by_hand(tensor: Tensor) -> bool:
    """Whether what makes a CPU fast is done for this tensor: on a CPU, unless `torch.compile` writes the code."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def described(device: torch.device) -> str:
    """The name of the hardware, for a message."""
    if device.type in ("cuda", "xpu"):
        return f"{device} ({torch.get_device_module(device.type).get_device_name(device)})"
    return str(device)


def say_where(say: Callable[[str], None], what: str, device: torch.device) -> None:
    """Say that an accelerator is used: `auto` may have chosen it."""
    if device.type != "cpu":
        say(f"{what} on {described(device)}")


def widest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 where the device has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def multiplies_in_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for it, so that products in bfloat16 are faster than in float32."""
    if device.type == "cpu":
        # The first is what PyTorch was told to use, the second what the processor has.
        return torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.cpu._is_avx512_bf16_supported()
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The type that autocast gives to all matrix products on this device; None: that of their inputs."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return None


def autocast_to(
    device: torch.device, low: torch.dtype | None, cache: bool | None = None
) -> AbstractContextManager[object]:
    """`torch.autocast` to the type `low`; None: without autocast."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, low, enabled=low is not None, cache_enabled=cache)
