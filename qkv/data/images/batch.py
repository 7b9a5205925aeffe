"""Batches of images: any batch of any epoch by its number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.data.images.store import ImageStore
from qkv.data.order import BatchPlan, Budget, epoch_plan, share


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
        return ImageBatch(
            self.images.to(device, non_blocking=True), self.labels.to(device, non_blocking=True), self.examples
        )

    def split(self) -> tuple["ImageBatch", "ImageBatch"]:
        """Two batches of half the images, for when one does not fit in memory."""
        if len(self) < 2:
            raise ValueError("a batch of fewer than two images cannot be split")
        middle = (len(self) + 1) // 2
        return (
            ImageBatch(self.images[:middle], self.labels[:middle], self.examples[:middle]),
            ImageBatch(self.images[middle:], self.labels[middle:], self.examples[middle:]),
        )


class ImageStream:
    """The batches of a store."""

    unit = "images"

    def __init__(self, store: ImageStore, images_per_batch: int, seed: int) -> None:
        self.store = store
        self.seed = seed
        self.batch_tokens = images_per_batch
        self._ones = np.ones(len(store), dtype=np.uint32)
        self._latest: tuple[int, BatchPlan] | None = None

    def plan(self, epoch: int) -> BatchPlan:
        """The batches of `epoch`: a function of the seed and the epoch, in which an image is one token."""
        if self._latest is None or self._latest[0] != epoch:
            budget = Budget(self.batch_tokens)
            plan = epoch_plan(self._ones, self._ones, self.store.ranges, self.seed, epoch, budget)
            self._latest = (epoch, plan)
        return self._latest[1]

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
