"""`kind: folder`: a folder for each class, named as the class, with image files inside."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from qkv.core.errors import DataError, UsageError
from qkv.core.reading import open_file
from qkv.data.images.sources import ImageSource, LabelledImage, Pixels, image_sources

SUFFIXES = frozenset({".png", ".ppm", ".pgm", ".pbm", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"})
Side = Annotated[int, Field(ge=1, le=1 << 14)]


@image_sources.register
class ImageFolder(ImageSource):
    """PNG, PPM, JPEG and whatever else Pillow reads: `path/CLASS/IMAGE.png`."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "photos"}

    kind: Literal["folder"] = "folder"
    channels: Literal[1, 3] = 3
    """3: colour; 1: converted to grey."""
    size: tuple[Side, Side] | None = None
    """Height and width that every image is scaled to; null: as they are, which must then be all of one size."""

    def files(self, root: Path) -> list[Path]:
        folder = root / self.path
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; give a folder with a folder of images for each class")
        found = [
            image
            for own in sorted(folder.iterdir())
            if own.is_dir() and not own.name.startswith(".")
            for image in sorted(own.iterdir())
            if image.suffix.lower() in SUFFIXES and not image.name.startswith(".")
        ]
        if not found:
            raise DataError(
                f"{folder}: holds no images; put those of each class into a folder of its name, such as "
                f"{folder}/cat/1.png"
            )
        return found

    def count(self, root: Path) -> int:
        return len(self.files(root))

    def read(self, root: Path) -> Iterator[LabelledImage]:
        for path in self.files(root):
            yield LabelledImage(read_image(path, self.channels, self.size), path.parent.name, str(path))


def read_image(path: Path, channels: int, size: tuple[int, int] | None = None) -> Pixels:
    """An image file as [channels, height, width], scaled to `size` (height, width) if it is given."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise UsageError("image files need Pillow; install it with: pip install 'qkv[images]'") from error
    try:
        with open_file(path) as file, Image.open(file) as image:
            converted = image.convert("L" if channels == 1 else "RGB")
            if size is not None:
                converted = converted.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            pixels = np.asarray(converted, dtype=np.uint8)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise DataError(f"{path}: is not an image that Pillow can read; remove it or save it again as PNG") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); remove it or save it again") from error
    return pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1)
