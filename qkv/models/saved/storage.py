"""How the weights of a saved model are stored: as float32, as float16, or as int8 with one scale for each row.

A model stored in fewer bits is loaded as float32 like any other; it only takes less space on disk:

    int8[i, j] = round(w[i, j] / scale[i]),  scale[i] = max_j |w[i, j]| / 127
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

STORAGES = ("float32", "float16", "int8")
SCALE = "::scale"
"""Ends the name of the tensor that holds the scales of another one."""
LEVELS = 127


def to_storage(weights: Mapping[str, Tensor], storage: str) -> dict[str, Tensor]:
    """The tensors to write. In int8, only matrices are quantised; vectors (norms, biases) become float16."""
    if storage == "float32":
        return dict(weights)
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if storage == "int8" and weight.dim() > 1:
            stored[name], stored[name + SCALE] = quantize_rows(weight)
        else:
            stored[name] = weight.to(torch.float16)
    return stored


def from_storage(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `to_storage` was given, as nearly as their storage holds them."""
    return {
        name: dequantize_rows(tensor, tensors[name + SCALE]) if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def weight_names(stored: Iterable[str]) -> list[str]:
    """The names of the weights among the names of stored tensors."""
    return [name for name in stored if not name.endswith(SCALE)]


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as int8 [M, ...] and its scales [M]. A row of zeros has scale 0."""
    scale = weight.detach().float().flatten(1).abs().amax(dim=1) / LEVELS
    steps = weight.detach().float() / _per_row(scale.clamp(min=torch.finfo(torch.float32).tiny), weight)
    return steps.round().clamp(-LEVELS, LEVELS).to(torch.int8), scale


def dequantize_rows(steps: Tensor, scale: Tensor) -> Tensor:
    """int8 [M, ...] times scale [M], in float32."""
    return steps.float() * _per_row(scale.float(), steps)


def _per_row(scale: Tensor, like: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (like.dim() - 1))
