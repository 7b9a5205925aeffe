"""Arrays in JSON: compressed bytes in base64, in the smallest type that shows three digits."""

import base64
import binascii
import zlib
from math import prod
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, with_config
from torch import Tensor
from typing_extensions import TypedDict

from qkv.core.reading import STRICT

LEVELS = 255
"""Weights between 0 and 1 as bytes: steps of 1/255."""
LARGEST = 1 << 28
"""Numbers of an array that is read."""


@with_config(STRICT)
class PackedArray(TypedDict):
    """`data` is base64 of zlib of the numbers, little-endian, row by row."""

    shape: list[Annotated[int, Field(ge=0, le=LARGEST)]]
    type: Literal["f16", "u8"]
    """f16: half floats; u8: bytes, 255 stands for 1."""
    data: str


def packed(values: Tensor) -> PackedArray:
    """As half floats: about three digits. Beyond their range, the largest one."""
    limit = torch.finfo(torch.float16).max
    numbers = values.detach().float().nan_to_num(posinf=limit, neginf=-limit).clamp(-limit, limit)
    return _written(list(values.shape), "f16", numbers.numpy().astype("<f2"))


def packed_coarsely(values: Tensor) -> PackedArray:
    """Values between 0 and 1 as bytes; NaN as 0."""
    levels = (values.detach().float().nan_to_num().clamp(0, 1) * LEVELS).round()
    return _written(list(values.shape), "u8", levels.numpy().astype(np.uint8))


def unpacked(array: PackedArray) -> Tensor:
    """What `packed` or `packed_coarsely` wrote, in float32; raises ValueError if it is anything else."""
    kind = "<f2" if array["type"] == "f16" else "u1"
    numbers = np.frombuffer(_raw(array, np.dtype(kind).itemsize), kind).astype(np.float32)
    return torch.from_numpy(numbers / LEVELS if kind == "u1" else numbers).view(array["shape"])


def _raw(array: PackedArray, size: int) -> bytes:
    """As many bytes as the shape says, never more."""
    wanted = prod(array["shape"]) * size
    try:
        packed_bytes = base64.b64decode(array["data"], validate=True)
        raw = zlib.decompressobj().decompress(packed_bytes, wanted + 1) if wanted <= LARGEST else b""
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"an array that cannot be read ({error})") from error
    if len(raw) != wanted:
        raise ValueError(f"an array of another size than its shape {array['shape']}")
    return raw


def _written(shape: list[int], kind: Literal["f16", "u8"], numbers: np.ndarray) -> PackedArray:
    data = base64.b64encode(zlib.compress(numbers.tobytes(), 6)).decode()
    return {"shape": shape, "type": kind, "data": data}
