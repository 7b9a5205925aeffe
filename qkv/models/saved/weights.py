"""Parameters by name, to and from safetensors. Names are an interface; a tied parameter is stored once.

Weights are stored as float32, as float16, or as int8 with one scale for each row; they are always loaded as float32:

    int8[i, j] = round(w[i, j] / scale[i]),  scale[i] = max_j |w[i, j]| / 127
"""

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import TypeGuard

import torch
from pydantic import with_config
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.reading import STRICT, Count, open_file, parse_record
from qkv.kernels.memory import available_memory

STORAGES = ("float32", "float16", "int8")
SCALE = "::scale"
"""Suffix of the name of a tensor that holds the scales of another one."""
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
    """The inverse of `to_storage`, up to the precision of the storage."""
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


MAX_HEADER = 100 << 20
"""The limit of the safetensors library."""
IN_MEMORY = 4
"""Bytes per weight in memory, whatever the storage."""


@with_config(STRICT)
class TensorEntry(TypedDict):
    """The header entry of a tensor."""

    dtype: str
    shape: list[Count]
    data_offsets: tuple[Count, Count]


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors in a safetensors file by name; raises CorruptFolder."""
    try:
        with open_file(path) as file:
            size = int.from_bytes(file.read(8), "little")
            if size > MAX_HEADER:
                raise CorruptFolder(f"{path}: is not a safetensors file; use another copy")
            raw = file.read(size)
    except OSError as error:
        raise CorruptFolder(f"{path}: cannot be read ({error.strerror}); use another copy") from error
    entries = parse_record(raw, dict[str, TensorEntry | dict[str, str]], path, "a safetensors file")
    return {name: entry for name, entry in entries.items() if _is_tensor(entry)}


def _is_tensor(entry: TensorEntry | dict[str, str]) -> TypeGuard[TensorEntry]:
    """Not the metadata, which map texts to texts."""
    return "dtype" in entry


def require_model_memory(path: Path) -> None:
    """Refuse weights that do not fit into memory: the content of the file, and the model it is loaded into."""
    available = available_memory()
    entries = read_header(path).values()
    stored = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in entries)
    needed = stored + sum(prod(entry["shape"]) for entry in entries) * IN_MEMORY
    if available is not None and needed > available:
        raise QkvError(
            f"{path}: the model needs {needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} GiB are free; "
            "use a smaller model or a machine with more memory"
        )


KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
"""Floating-point types that weights may be stored in."""


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, under the first name it has in the model."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:
        raise QkvError(f"{path}: cannot be written ({error}); make room or choose another folder") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CorruptFolder(f"{path}: is not a readable safetensors file ({error}); use another copy") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a file, in any storage; tensors of other types are rejected."""
    tensors = read_tensors(path)
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        if scale is not None and (tensor.dtype != torch.int8 or scale.shape != tensor.shape[:1]):
            raise CorruptFolder(f"{path}: the scales of {name} do not fit it; use another copy")
        if scale is None and tensor.dtype not in KINDS:
            kind, kinds = str(tensor.dtype).removeprefix("torch."), ", ".join(map(str, KINDS)).replace("torch.", "")
            raise CorruptFolder(
                f"{path}: {name} holds {kind}, not floating-point weights; store them as one of {kinds}"
            )
    return from_storage(tensors)


def tensor_names(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise CorruptFolder(f"{path}: is not a readable safetensors file ({error}); use another copy") from error


def require_shapes(model: nn.Module, shapes: Mapping[str, list[int]], where: Path) -> None:
    """Require that the file `where` holds exactly the parameters of the model, with their shapes."""
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
    """Copy `tensors` into the model; names and shapes must match and all values must be finite."""
    require_shapes(model, {name: list(tensor.shape) for name, tensor in tensors.items()}, where)
    for name, parameter in model.named_parameters():
        tensor = tensors[name]
        if not bool(torch.isfinite(tensor).all()):
            raise CorruptFolder(f"{where}: {name} holds values that are not finite; use an earlier checkpoint")
        parameter.copy_(tensor)
