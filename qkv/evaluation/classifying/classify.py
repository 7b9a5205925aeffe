"""Names the classes of images by a saved model."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from qkv.core.errors import DataError
from qkv.data.arrays.npz import npz_rows
from qkv.data.batching import in_chunks
from qkv.data.images.batch import scaled_pixels
from qkv.data.images.folder import SUFFIXES, read_image
from qkv.data.images.npz import ImageArchive
from qkv.data.images.sources import Pixels
from qkv.models.asked import require_asked
from qkv.models.saved.folder import load_model
from qkv.models.vision.config import VisionConfig
from qkv.models.vision.model import VisionModel

AT_ONCE = 64


class ClassifiedImage(NamedTuple):
    """What a model says of an image."""

    image: str
    """Its file, or its archive and row."""
    label: str
    probabilities: dict[str, float]
    """Of each class, the likeliest first."""


class ImageClassifier:
    """A saved vision model that names the classes of images.

    Image files are scaled to the size that it was trained on; the images of an archive are read as they are.
    """

    def __init__(self, folder: Path | str) -> None:
        saved = load_model(folder)
        require_asked(saved.config.model, "classify", folder)
        assert isinstance(saved.model, VisionModel)
        assert isinstance(saved.config.model, VisionConfig)
        self.config = saved.config.model
        self.model = saved.model.classifier
        self.labels = saved.config.labels or [str(number) for number in range(self.config.classes)]

    def classified(self, paths: Sequence[Path]) -> Iterator[ClassifiedImage]:
        """Each image of the files, folders and archives, in this order."""
        for _, same_size in groupby(self._images(paths), key=lambda image: image[1].shape):
            for chunk in in_chunks(same_size, AT_ONCE):
                names = [name for name, _ in chunk]
                yield from self._named(names, np.stack([pixels for _, pixels in chunk]))

    def read(self, file: Path) -> Float[Tensor, "channels height width"]:
        """An image file as the model reads it."""
        return scaled_pixels(torch.from_numpy(read_image(file, self.config.channels, self.config.image_size).copy()))

    @torch.no_grad()
    def _named(self, names: Sequence[str], pixels: Pixels) -> Iterator[ClassifiedImage]:
        found = self.model(scaled_pixels(torch.from_numpy(pixels))).softmax(dim=-1)
        for name, row in zip(names, found, strict=True):
            order = row.argsort(descending=True).tolist()
            probabilities = {self.labels[number]: float(row[number]) for number in order}
            yield ClassifiedImage(name, self.labels[order[0]], probabilities)

    def _images(self, paths: Iterable[Path]) -> Iterator[tuple[str, Pixels]]:
        for path in paths:
            if path.suffix.lower() == ".npz":
                yield from self._archived(path)
            else:
                for file in _files(path):
                    yield str(file), read_image(file, self.config.channels, self.config.image_size)

    def _archived(self, path: Path) -> Iterator[tuple[str, Pixels]]:
        ImageArchive(path=path).check_images(path)
        row = 0
        for chunk in npz_rows(path, "images"):
            for image in chunk if chunk.ndim == 4 else chunk[..., None]:
                row += 1
                pixels = image.transpose(2, 0, 1)
                if problem := self.config.unreadable(pixels):
                    raise DataError(f"{path}: {problem}; convert them, or give image files, which are scaled")
                yield f"{path}:{row}", pixels


def _files(path: Path) -> list[Path]:
    """The file itself, or the images in and below a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(f"{path}: holds no images; give a folder with image files")
    return found
