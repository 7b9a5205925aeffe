"""qkv show"""

from qkv.cli.show.inside import app

__all__ = ["app"]
