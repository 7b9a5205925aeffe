"""Where images come from: what every kind of source does, and the registry of the kinds.

train: {kind: folder, path: photos/train, size: [32, 32]}
test: {kind: npz, path: test.npz}
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from qkv.config.base import Config, Kinds

Pixels = npt.NDArray[np.uint8]


class LabelledImage(NamedTuple):
    """An image and the name of its class."""

    pixels: Pixels
    """[channels, height, width]"""
    label: str
    name: str
    """The file, or the archive and the row, for messages."""


class ImageSource(Config):
    """A source of images with labels."""

    kind: str
    path: Path
    """The file or folder."""
    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch uses these images; 0.5 uses half of them, alternating between epochs."""

    def files(self, root: Path) -> list[Path]:
        """Every file that is read; raises DataError if there is none."""
        raise NotImplementedError

    def count(self, root: Path) -> int:
        """The number of images."""
        raise NotImplementedError

    def read(self, root: Path) -> Iterator[LabelledImage]:
        """Stream the images; the path is relative to `root`."""
        raise NotImplementedError


image_sources = Kinds[ImageSource]("image source")


def shown_size(pixels: Pixels) -> str:
    """For messages: `8 x 8 pixels, 1 channel`."""
    channels, height, width = pixels.shape
    return f"{height} x {width} pixels, {channels} channel{'s' if channels > 1 else ''}"
