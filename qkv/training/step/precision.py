"""The precision of matrix products in training: `fp32`, `tf32`, `bf16` or `fp16`.

Weights, gradients and the optimiser's state are float32 in all of them. With `bf16` and `fp16` matrix products run in
16 bits (autocast, on a CPU those of linear layers and of the vocabulary); softmax, norms, sums and the loss stay in
float32.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from qkv.core.devices import CPU, autocast_to
from qkv.core.errors import UsageError
from qkv.kernels.half.linears import products_in

LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}
FIRST_SCALE = 2.0**16
SMALLEST_SCALE = 2.0**-14
GROW_AFTER = 2000
"""Updates without overflow after which the scale is doubled."""


@dataclass(frozen=True)
class Precision:
    """The precision of a run on its device."""

    name: str = "fp32"
    device: torch.device = CPU

    def prepare(self) -> None:
        """Switch TF32 on or off; raises UsageError if the device cannot compute like this."""
        if self.name == "tf32" and self.device.type != "cuda":
            raise UsageError(f"training.precision tf32 needs a CUDA device, not {self.device}; use fp32 or bf16")
        if self.name in LOW and not torch.amp.is_autocast_available(self.device.type):
            raise UsageError(f"training.precision {self.name} does not run on {self.device}; use fp32")
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high" if self.name == "tf32" else "highest")

    def autocast(self, cache: bool | None = None) -> AbstractContextManager[object]:
        """Context of the forward pass; `cache`: whether weights in 16 bits are kept until its end."""
        return products_in(self.device, self.low, cache)

    def autocast_step(self) -> AbstractContextManager[object]:
        """Context of the optimiser's step: Muon's products need no more than bfloat16, but more range than float16."""
        return autocast_to(self.device, torch.bfloat16 if self.name == "bf16" else None)

    @property
    def low(self) -> torch.dtype | None:
        """The type of 16 bits of matrix products, if they have one."""
        return LOW.get(self.name)

    @property
    def first_scale(self) -> float:
        """The scale of the loss at the first update."""
        return FIRST_SCALE if self.name == "fp16" else 1.0


def next_scale(scale: float, steps: int, finite: bool) -> tuple[float, int]:
    """The scale of the loss and its number of good updates, after an update: the rule of `torch.amp.GradScaler`.

    An overflow halves the scale; it is doubled after `GROW_AFTER` updates without one.
    """
    if not finite:
        return max(scale / 2, SMALLEST_SCALE), 0
    return (scale * 2, 0) if steps + 1 >= GROW_AFTER else (scale, steps + 1)
