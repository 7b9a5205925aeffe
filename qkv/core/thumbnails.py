"""Small pictures of matrices for notebooks: PNG files as addresses that hold their own data."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

DARKEST = np.array([11, 74, 143])
"""The colour of 1; that of 0 is white."""


def thumbnail_address(values: npt.NDArray[Any]) -> str:
    """A `data:` address of a picture with one pixel for each number between 0 and 1; the darker, the larger."""
    shares = np.sqrt(np.clip(np.asarray(values, dtype=np.float64), 0, 1))[..., None]
    pixels = np.round(255 * (1 - shares) + DARKEST * shares).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(_png(pixels)).decode()


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """[height, width, 3] as a PNG file: every line with filter 0."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
