"""qkv show"""

import qkv.cli.show.papers  # noqa: F401  # its verbs register themselves
from qkv.cli.show.image import image
from qkv.cli.show.inside import app

app.command("image")(image)

__all__ = ["app"]
