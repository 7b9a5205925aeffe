"""A folder of pairs whose one side a model writes. Stopped at any time, the work on it can be resumed.

OUT/prepared             while the job runs: the data before it is translated
OUT/manifest.json        model, settings, SHA-256 of every file; written last, so only what is complete has one
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import MANIFEST, read_manifest, verify_folder, write_manifest
from qkv.core.outputs import MARKER, claim_folder, mark_folder, read_marker
from qkv.core.temporary import is_unique_name
from qkv.data.texts import survey
from qkv.translate.jobs.job import locked
from qkv.translate.jobs.line_work import LineWork, read_sources

SRC, TGT = "train.src", "train.tgt"
PREPARED, LOCK = "prepared", "lock"


@dataclass(frozen=True)
class PairFolder:
    """What such a folder contains."""

    what: str
    """Its kind, in the marker and in the manifest."""
    role: str
    """What the model is called in the manifest."""
    given: str
    """The file that the model reads, one text a line."""
    written: str
    """The file that it writes, line n for line n."""
    beside: tuple[str, ...] = ()
    """Other files that may be prepared."""

    @property
    def names(self) -> set[str]:
        """Everything that the folder may contain, besides temporary files."""
        job = {self.written, f"{self.written}.part", f"{self.written}.journal"}
        return {self.given, *self.beside, *job, PREPARED, MANIFEST, MARKER}

    @contextmanager
    def at_work_on(self, out: Path) -> Iterator[None]:
        """Lock `out`, which is new or was created by this program, for this process."""
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out}: is not a folder; choose another name")
        there = sorted(path.name for path in out.iterdir()) if out.exists() else []
        if others := [name for name in there if name not in self.names and not is_unique_name(name)]:
            raise UsageError(f"{out}: holds other files already ({others[0]}); choose a new folder")
        if not read_marker(out) and self._was_begun_before_markers(out):
            mark_folder(out, self.what, self.names)
        claim_folder(out, self.what, self.names, "choose a new folder")
        try:
            (out / PREPARED).mkdir(exist_ok=True)
        except OSError as error:
            raise QkvError(f"{out}: cannot be written ({error.strerror})") from error
        with locked(out / PREPARED / LOCK):
            for name in (self.given, *self.beside):  # of an attempt that was refused
                (out / PREPARED / name).unlink(missing_ok=True)
            yield

    def _was_begun_before_markers(self, out: Path) -> bool:
        try:
            return (out / PREPARED / LOCK).is_file() or read_manifest(out).get("what") == self.what
        except CorruptFolder:
            return False

    def translate(self, out: Path, work: LineWork, read: Mapping[str, str], restart: bool) -> None:
        """Translate what is prepared in `out`, which this process is `at_work_on`.

        If it is stopped at any time, calling it again in the same way resumes it. `read` names the files that the
        output depends on, the one that the model reads first.
        """
        prepared = out / PREPARED
        identity = work.identity({name: survey(prepared / file) for name, file in read.items()})
        about = {"what": self.what, self.role: identity.pop("model"), **identity}
        if not restart and (out / MANIFEST).exists():
            _require_same(about, out)
            work.reporter.say(f"{out}: is complete already")
        else:
            (out / MANIFEST).unlink(missing_ok=True)
            for name in (self.given, *self.beside):
                if (prepared / name).exists():
                    (prepared / name).replace(out / name)
                else:  # of an abandoned job with other data
                    (out / name).unlink(missing_ok=True)
            paths = {name: out / file for name, file in read.items()}
            work.to_file(read_sources(out / self.given, None, "error"), out / self.written, paths, restart)
        shutil.rmtree(prepared)
        if not (out / MANIFEST).exists():
            write_manifest(out, about)


def _require_same(about: dict[str, Any], out: Path) -> None:
    """Existing data must equal what would be written."""
    there = verify_folder(out)
    if differs := [key for key in about if there.get(key) != about[key]]:
        shutil.rmtree(out / PREPARED)
        raise UsageError(
            f"{out}: holds data with another {' and another '.join(differs)}; choose a new folder, or give --restart"
        )
