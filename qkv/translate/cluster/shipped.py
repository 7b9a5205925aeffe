"""The folders of models on machines that do not have them: sent through Ray's object store, opened, removed again."""

import atexit
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from qkv.config import Config
from qkv.core.errors import CorruptFolder
from qkv.core.files import MANIFEST, read_manifest

AnyConfig = TypeVar("AnyConfig", bound=Config)


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

    def kept(self) -> Path:
        """The same for as long as this process lives."""
        stack = ExitStack()
        atexit.register(stack.close)
        return stack.enter_context(self.here())


def ship(folders: Sequence[Path]) -> list[ShippedFolder]:
    """Put the folders into the object store of the cluster that this process has joined."""
    import ray

    shipped = []
    for folder in folders:
        manifest = read_manifest(folder)
        files = {name: (folder / name).read_bytes() for name in [*manifest["files"], MANIFEST]}
        shipped.append(ShippedFolder(folder.absolute(), manifest["checksum"], ray.put(files)))
    return shipped


def paths_in(config: Config) -> list[Path]:
    """All paths among the values of a config: of a search, the models that draft or rescore for it."""
    found = []
    for _, value in config:
        if isinstance(value, Config):
            found += paths_in(value)
        elif isinstance(value, Path):
            found.append(value)
    return found


def relocated(config: AnyConfig, places: Mapping[Path, Path]) -> AnyConfig:
    """The same config with other paths."""
    changed: dict[str, Any] = {}
    for name, value in config:
        if isinstance(value, Config):
            changed[name] = relocated(value, places)
        elif isinstance(value, Path):
            changed[name] = places.get(value, value)
    return config.model_copy(update=changed)
