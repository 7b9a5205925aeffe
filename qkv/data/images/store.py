"""Prepared images on disk: pixels as bytes, and the class of each image."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import with_config
from typing_extensions import TypedDict

from qkv.core.errors import DataError
from qkv.core.reading import STRICT
from qkv.data.arrays.stored import StoredArrays, open_arrays, write_arrays, write_rows
from qkv.data.build import CountProgress
from qkv.data.images.sources import ImageSource, LabelledImage, Pixels, shown_size
from qkv.data.store import CorpusRange

CHUNK = 256
"""Images that are held in memory at a time while a store is written."""


@dataclass(frozen=True)
class ImageReport:
    """What was read."""

    images: int
    by_class: dict[str, int]

    def lines(self) -> list[str]:
        return [f"{self.images:,} images of {len(self.by_class):,} classes"]


@with_config(STRICT)
class AboutImages(TypedDict):
    """What is known about the images of a store."""

    classes: list[str]
    ranges: list[CorpusRange]


class ImageStore:
    """Images of one size, open for reading."""

    def __init__(self, stored: StoredArrays) -> None:
        about = stored.about(AboutImages)
        self.folder, self.fingerprint = stored.folder, stored.fingerprint
        self.classes: list[str] = about["classes"]
        self.ranges = about["ranges"]
        self.pixels: Pixels = stored.arrays["pixels"]
        self.labels: npt.NDArray[np.int32] = stored.arrays["labels"]

    @classmethod
    def open(cls, folder: Path) -> "ImageStore":
        """Open a store that `build_image_store` wrote."""
        return cls(open_arrays(folder))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    @property
    def report(self) -> ImageReport:
        counts = np.bincount(self.labels, minlength=len(self.classes)).tolist()
        return ImageReport(len(self), dict(zip(self.classes, counts, strict=True)))

    @property
    def num_tokens(self) -> int:
        """Pixels."""
        return int(self.pixels.size)

    @property
    def num_tgt_tokens(self) -> int:
        """One label an image."""
        return len(self)

    def label_names(self, images: npt.NDArray[np.integer[Any]] | Sequence[int]) -> list[str]:
        """The classes of these images."""
        return [self.classes[label] for label in self.labels[np.asarray(images)].tolist()]


@dataclass(frozen=True)
class ImagePart:
    """One part of the data before it is prepared."""

    sources: tuple[ImageSource, ...]
    root: Path
    held_out: frozenset[int] = frozenset()
    """Numbers of images, counted over all sources, that belong to dev."""
    is_dev: bool = False

    def texts(self, side: str) -> Iterator[str]:
        """The labels, which are the texts of the side `tgt`."""
        return iter(()) if side == "src" else (image.label for _, image in self.images())

    def images(self) -> Iterator[tuple[int, LabelledImage]]:
        """The images, each with the number of its source."""
        place = 0
        for number, source in enumerate(self.sources):
            for image in source.read(self.root):
                if not self.held_out or (place in self.held_out) == self.is_dev:
                    yield number, image
                place += 1


def build_image_store(
    folder: Path,
    part: ImagePart,
    inputs: str,
    classes: Sequence[str] | None = None,
    progress: CountProgress | None = None,
) -> None:
    """Stream the images of a part into a new store; raises DataError if they are not all of one size.

    `classes` are those of the model, in its order; without them, those of the images, in alphabetical order.
    """

    def fill(temporary: Path) -> AboutImages:
        labels: list[str] = []
        counts: Counter[int] = Counter()

        def images() -> Iterator[LabelledImage]:
            for source, image in part.images():
                labels.append(image.label)
                counts[source] += 1
                yield image
                if progress is not None and len(labels) % CHUNK == 0:
                    progress(len(labels), None)

        _write_pixels(temporary / "pixels.npy", images(), part.sources[0].path)
        known = sorted(set(labels)) if classes is None else list(classes)
        require_known(labels, known, " and ".join(str(source.path) for source in part.sources))
        numbers = {name: number for number, name in enumerate(known)}
        np.save(temporary / "labels.npy", np.array([numbers[label] for label in labels], dtype=np.int32))
        stops = np.cumsum([counts[number] for number in range(len(part.sources))]).tolist()
        bounds = zip([0, *stops], stops, part.sources, strict=False)
        return {"classes": known, "ranges": [CorpusRange(start, stop, own.weight) for start, stop, own in bounds]}

    write_arrays(folder, inputs, fill)


def _write_pixels(path: Path, images: Iterator[LabelledImage], source: Path) -> None:
    first = next(images, None)
    if first is None:
        raise DataError(f"{source}: holds no images; give at least one")

    def chunks() -> Iterator[Pixels]:
        chunk = [first.pixels]
        for image in images:
            if image.pixels.shape != first.pixels.shape:
                raise DataError(
                    f"{image.name}: has {shown_size(image.pixels)}, but {first.name} has {shown_size(first.pixels)}; "
                    "set size, to which all images of a folder are scaled, or give images of one size"
                )
            chunk.append(image.pixels)
            if len(chunk) == CHUNK:
                yield np.stack(chunk)
                chunk = []
        if chunk:
            yield np.stack(chunk)

    write_rows(path, first.pixels.shape, np.uint8, chunks())


def require_known(classes: Iterable[str], known: Sequence[str], where: str) -> None:
    """Every class must be one that the model knows; `where` has the images."""
    if unknown := sorted(set(classes) - set(known)):
        shown = ", ".join(map(repr, known[:10])) + (", ..." if len(known) > 10 else "")
        raise DataError(
            f"{where}: has images of the class {unknown[0]!r}, which is not in train ({shown}); remove them"
        )
