"""Parameters by name, to and from safetensors. Names are an interface; a tied parameter is stored once."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from qkv.core.errors import CorruptFolder, QkvError
from qkv.models.saved.storage import SCALE, from_storage

KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
"""What a weight may be stored as."""


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, under the first name it has in the model."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:
        raise QkvError(f"{path}: cannot be written ({error}); make room or choose another folder") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CorruptFolder(f"{path}: is not a readable safetensors file ({error}); use another copy") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a file, whichever way they are stored; tensors that are no weights are refused."""
    tensors = read_tensors(path)
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        if scale is not None and (tensor.dtype != torch.int8 or scale.shape != tensor.shape[:1]):
            raise CorruptFolder(f"{path}: the scales of {name} do not fit it; use another copy")
        if scale is None and tensor.dtype not in KINDS:
            kind, kinds = str(tensor.dtype).removeprefix("torch."), ", ".join(map(str, KINDS)).replace("torch.", "")
            raise CorruptFolder(f"{path}: {name} holds {kind}, which are no weights; store them as one of {kinds}")
    return from_storage(tensors)


def tensor_names(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise CorruptFolder(f"{path}: is not a readable safetensors file ({error}); use another copy") from error


def require_shapes(model: nn.Module, shapes: Mapping[str, list[int]], where: Path) -> None:
    """Every parameter of the model, and nothing else, must be in the file `where`, in its shape."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != shapes.keys():
        wrong = sorted(parameters.keys() ^ shapes.keys())
        raise CorruptFolder(f"{where}: does not fit the model of its config; first differing parameter: {wrong[0]}")
    for name, parameter in parameters.items():
        if shapes[name] != list(parameter.shape):
            both = f"{shapes[name]}, not {list(parameter.shape)}"
            raise CorruptFolder(f"{where}: {name} has shape {both}; the weights belong to another model")


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy `tensors` into the model; every name and shape must fit and every number be finite."""
    require_shapes(model, {name: list(tensor.shape) for name, tensor in tensors.items()}, where)
    for name, parameter in model.named_parameters():
        tensor = tensors[name]
        if not bool(torch.isfinite(tensor).all()):
            raise CorruptFolder(f"{where}: {name} holds numbers that are not finite; use an earlier checkpoint")
        parameter.copy_(tensor)
