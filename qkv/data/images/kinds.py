"""The kinds of image sources, as the type of a field."""

from typing import Annotated

from qkv.data.images import folder, npz
from qkv.data.images.sources import ImageSource, image_sources

AnyImages = Annotated[ImageSource, image_sources]

__all__ = ["AnyImages", "folder", "npz"]
