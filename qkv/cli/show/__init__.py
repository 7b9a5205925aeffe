"""qkv show"""

from qkv.cli.show.image import image
from qkv.cli.show.inside import app

app.command("image")(image)

__all__ = ["app"]
