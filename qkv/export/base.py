"""The formats that a model is exported to. A new one is a function like these and one registration."""

from collections.abc import Callable
from pathlib import Path

from qkv.config import Names
from qkv.models.saved.folder import SavedModel

Exporter = Callable[[SavedModel, Path, str | None], None]
"""Writes a model into a new folder, its weights quantised as the third argument says (None: they are not). The folder's
manifest says `what` it is: the name of the format."""

exporters = Names[Exporter]("export format")
