"""`kind: npz`: images and labels as two arrays of a NumPy archive."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qkv.core.errors import DataError
from qkv.data.arrays.npz import Array, npz_array, npz_rows, npz_whole
from qkv.data.images.sources import ImageSource, LabelledImage, image_sources


@image_sources.register
class ImageArchive(ImageSource):
    """`numpy.savez(path, images=..., labels=...)`: bytes [N, height, width] or [N, height, width, channels], and a
    label for each."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "digits.npz"}

    kind: Literal["npz"] = "npz"
    images: str = "images"
    """The array of images, of type uint8 (0 is black, 255 is white)."""
    labels: str = "labels"
    """The array of labels: numbers or names of classes."""

    def files(self, root: Path) -> list[Path]:
        path = root / self.path
        if not path.is_file():
            raise DataError(f"{path}: no such file; correct the path, or data.root")
        return [path]

    def count(self, root: Path) -> int:
        shape = npz_array(self.files(root)[0], self.images).shape
        return shape[0] if shape else 0

    def read(self, root: Path) -> Iterator[LabelledImage]:
        path = self.files(root)[0]
        self.check_images(path)
        labels, row = self._labels(path), 0
        for chunk in npz_rows(path, self.images):
            for image in chunk if chunk.ndim == 4 else chunk[..., None]:
                yield LabelledImage(image.transpose(2, 0, 1), labels[row], f"{path}:{row + 1}")
                row += 1

    def check_images(self, path: Path) -> None:
        """Raises DataError if the array of images has another type or shape."""
        images = npz_array(path, self.images)
        if images.dtype != np.uint8:
            raise DataError(
                f"{path}: the array {self.images!r} is of type {images.dtype}, not uint8; save values from 0 to 255, "
                "as in (255 * images).astype('uint8') for images from 0 to 1"
            )
        if len(images.shape) not in (3, 4) or (len(images.shape) == 4 and images.shape[3] not in (1, 3)):
            raise DataError(
                f"{path}: the array {self.images!r} has the shape {images.shape}; it must be [N, height, width] or "
                "[N, height, width, channels] with 1 or 3 channels"
            )

    def _labels(self, path: Path) -> list[str]:
        labels, images = npz_whole(path, self.labels), npz_array(path, self.images).shape[0]
        if labels.ndim != 1 or labels.dtype.kind not in "iuU":
            raise DataError(
                f"{path}: the array {self.labels!r} must hold a whole number or a text for each image, not "
                f"{labels.dtype} {list(labels.shape)}"
            )
        if len(labels) != images:
            raise DataError(f"{path}: has {images:,} images and {len(labels):,} labels; give each image its label")
        return _texts(labels, path, self.labels)


def _texts(labels: Array, path: Path, name: str) -> list[str]:
    found = [str(label) for label in labels.tolist()]
    for row, label in enumerate(found, start=1):
        if not label.strip():
            raise DataError(f"{path}:{row}: the label is empty; give each image of {name!r} the name of its class")
    return found
