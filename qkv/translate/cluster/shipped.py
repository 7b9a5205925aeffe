"""The folders of models on machines that do not have them: sent through Ray's object store, opened, removed again."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.core.errors import CorruptFolder
from qkv.core.files import MANIFEST, read_manifest


@dataclass(frozen=True)
class ShippedFolder:
    """A folder with a manifest, and its files in the object store."""

    path: Path
    checksum: str
    files: Any
    """The reference to a dict of the files' contents."""

    @contextmanager
    def here(self) -> Iterator[Path]:
        """The folder on this machine: at its own path if it is there, else a copy for as long as it is being opened."""
        try:
            same = read_manifest(self.path)["checksum"] == self.checksum
        except CorruptFolder:
            same = False
        if same:
            yield self.path
            return
        import ray

        with tempfile.TemporaryDirectory(prefix="qkv-") as copy:
            for name, content in ray.get(self.files).items():
                (Path(copy) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(copy) / name).write_bytes(content)
            yield Path(copy)


def ship(folders: Sequence[Path]) -> list[ShippedFolder]:
    """Put the folders into the object store of the cluster that this process has joined."""
    import ray

    shipped = []
    for folder in folders:
        manifest = read_manifest(folder)
        files = {name: (folder / name).read_bytes() for name in [*manifest["files"], MANIFEST]}
        shipped.append(ShippedFolder(folder.absolute(), manifest["checksum"], ray.put(files)))
    return shipped
