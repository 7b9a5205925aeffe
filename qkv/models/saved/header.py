"""What a safetensors file holds, by its header alone: names, types and shapes, before any tensor is read."""

from math import prod
from pathlib import Path

from pydantic import with_config
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.reading import STRICT, Count, open_file, parse_record
from qkv.kernels.memory import available_memory

MAX_HEADER = 100 << 20
"""The library itself reads no longer one."""
IN_MEMORY = 4
"""Bytes of a weight of a model, however it is stored."""


@with_config(STRICT)
class TensorEntry(TypedDict):
    """What the header says of a tensor."""

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
    return {name: entry for name, entry in entries.items() if "dtype" in entry}  # type: ignore[misc]


def require_model_memory(path: Path) -> None:
    """Refuse weights that cannot be held: the file's content, and the model that is filled with it."""
    available = available_memory()
    entries = read_header(path).values()
    stored = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in entries)
    needed = stored + sum(prod(entry["shape"]) for entry in entries) * IN_MEMORY
    if available is not None and needed > available:
        raise QkvError(
            f"{path}: the model needs {needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} GiB are free; "
            "use a smaller model or a machine with more memory"
        )
