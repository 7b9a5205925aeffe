"""Images with labels as they are named on a command line: a folder, an archive, or what a recipe would say."""

from pathlib import Path

from qkv.config.base import Config
from qkv.config.load import validate
from qkv.data.images.kinds import AnyImages
from qkv.data.images.sources import ImageSource
from qkv.data.readers.named import said_as_in_recipe


class _GivenImages(Config):
    data: AnyImages


def images_of(given: str) -> ImageSource:
    """The source for a folder, for `test.npz`, or for `{kind: folder, path: photos, size: [32, 32]}`."""
    if given.lstrip().startswith("{"):
        return said_as_in_recipe(_GivenImages, given).data
    kind = "npz" if Path(given).suffix.lower() == ".npz" else "folder"
    return validate(_GivenImages, {"data": {"kind": kind, "path": Path(given)}}, given).data
