"""Arrays in JSON: compressed bytes in base64, in the smallest type that shows three digits."""

import base64
import zlib
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

LEVELS = 255
"""Weights between 0 and 1 as bytes: steps of 1/255."""


class PackedArray(TypedDict):
    """`data` is base64 of zlib of the numbers, little-endian, row by row."""

    shape: list[int]
    type: str
    """f16: half floats; u8: bytes, 255 stands for 1."""
    data: str


def packed(values: Tensor) -> PackedArray:
    """As half floats: about three digits. Beyond their range, the largest one."""
    limit = torch.finfo(torch.float16).max
    numbers = values.detach().float().nan_to_num(posinf=limit, neginf=-limit).clamp(-limit, limit)
    return _written(list(values.shape), "f16", numbers.numpy().astype("<f2"))


def packed_coarsely(values: Tensor) -> PackedArray:
    """Values between 0 and 1 as bytes."""
    levels = (values.detach().float().clamp(0, 1) * LEVELS).round()
    return _written(list(values.shape), "u8", levels.numpy().astype(np.uint8))


def unpacked(array: PackedArray) -> Tensor:
    """What `packed` or `packed_coarsely` wrote, in float32."""
    raw = zlib.decompress(base64.b64decode(array["data"]))
    if array["type"] == "u8":
        return torch.from_numpy(np.frombuffer(raw, np.uint8).astype(np.float32) / LEVELS).view(array["shape"])
    return torch.from_numpy(np.frombuffer(raw, "<f2").astype(np.float32)).view(array["shape"])


def _written(shape: list[int], kind: str, numbers: np.ndarray) -> PackedArray:
    data = base64.b64encode(zlib.compress(numbers.tobytes(), 6)).decode()
    return {"shape": shape, "type": kind, "data": data}
