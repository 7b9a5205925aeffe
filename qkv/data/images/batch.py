"""Batches of images: any batch of any epoch by its number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.core.devices import moved
from qkv.data.images.store import ImageStore
from qkv.data.order import PlannedEqually, share


def scaled_pixels(pixels: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bytes 0 ... 255 to -1 ... 1, as the published models read them."""
    return pixels.float() / 127.5 - 1


@dataclass(frozen=True)
class ImageBatch:
    """Images and the numbers of their classes."""

    smaller_examples = "raise model.patch"

    images: Float[Tensor, "B channels height width"]
    labels: Int[Tensor, " B"]
    examples: list[int]
    """Which images of the store these are, for diagnosis."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def size(self) -> str:
        """For a message."""
        return f"{len(self)} images of {self.images.shape[2]} x {self.images.shape[3]} pixels"

    def to(self, device: torch.device | str) -> "ImageBatch":
        """The same batch on `device`."""
        return ImageBatch(moved(self.images, device), moved(self.labels, device), self.examples)

    def split(self) -> tuple["ImageBatch", "ImageBatch"]:
        """Two batches of half the images, for when one does not fit in memory."""
        if len(self) < 2:
            raise ValueError("a batch of fewer than two images cannot be split")
        middle = (len(self) + 1) // 2
        return (
            ImageBatch(self.images[:middle], self.labels[:middle], self.examples[:middle]),
            ImageBatch(self.images[middle:], self.labels[middle:], self.examples[middle:]),
        )


class ImageStream(PlannedEqually):
    """The batches of a store."""

    unit = "images"

    def __init__(self, store: ImageStore, images_per_batch: int, seed: int) -> None:
        super().__init__(store.ranges, images_per_batch, seed)
        self.store = store

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> ImageBatch:
        """Batch `index` of `epoch`, or the rows of it that belong to `rank`; those may be none."""
        rows = share(self.plan(epoch).batch(index), rank, world)
        return self.images_of(rows.tolist())

    def images_of(self, rows: Sequence[int]) -> ImageBatch:
        """The images of these numbers."""
        chosen = np.asarray(rows, dtype=np.int64)
        pixels = torch.from_numpy(np.array(self.store.pixels[chosen]))
        labels = torch.from_numpy(self.store.labels[chosen].astype(np.int64))
        return ImageBatch(scaled_pixels(pixels), labels, list(rows))

    def names(self, examples: Sequence[int]) -> list[str]:
        """The classes of the images."""
        return self.store.label_names(examples)
