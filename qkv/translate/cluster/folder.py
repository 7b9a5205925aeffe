"""The output folder of a batch job: each shard is there as a whole or not at all, and a job that is started again does
only what is missing.

DIR/job.json                what the output depends on; written first
DIR/part-000000.txt         the output of the first shard, written under another name and renamed
DIR/done/000000.json        its manifest, written after the part: the shard is committed
DIR/failed.jsonl            the rows that have no output, if there are any: file, row and problem
DIR/manifest.json           the whole job and its parts; written last
DIR/driver.json             who drives the job at the moment (`lease`)
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from qkv.core.errors import UsageError
from qkv.core.files import MANIFEST
from qkv.translate.cluster.inputs import Shard
from qkv.translate.cluster.lease import DRIVER, require_driver
from qkv.translate.cluster.storage import Location

JOB, FAILED, DONE = "job.json", "failed.jsonl", "done"
MADE_BY = {"made_by": "qkv", "what": "batch job"}


class JobFolder:
    """The folder that `--output` names; it can be sent to other machines."""

    def __init__(self, place: Location, ending: str, driver: str | None = None) -> None:
        self.place, self.ending = place, ending
        self.driver = driver
        """Under whose name is written, which must still be that of the job's driver; None: nobody asks."""

    def driven_by(self, driver: str) -> "JobFolder":
        return JobFolder(self.place, self.ending, driver)

    def part(self, number: int) -> str:
        return f"part-{number:06d}{self.ending}"

    def commit(self, shard: Shard, content: bytes, report: Mapping[str, Any]) -> dict[str, Any]:
        """Write the output of a shard and then its manifest, which is returned."""
        name = self.part(shard.number)
        self._require_driver()
        self.place.below(name).write(content)
        about = {"part": name, "input": shard.file.name, "first": shard.first, "rows": shard.rows}
        about |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **report}
        self._require_driver()
        self.place.below(f"{DONE}/{shard.number:06d}.json").write(_json(about))
        return about

    def _require_driver(self) -> None:
        if self.driver is not None:
            require_driver(self.place, self.driver)

    def require_usable(self) -> None:
        """Raises UsageError if the folder holds something else than a batch job."""
        self._begun(self._files())

    def _files(self) -> list[str]:
        return [name for name in self.place.sizes() if not name.startswith(DRIVER)]

    def _begun(self, there: Collection[str]) -> dict[str, Any] | None:
        """The job that the folder holds; None: it is empty."""
        begun = _read(self.place.below(JOB))
        if there and (begun is None or any(begun.get(key) != value for key, value in MADE_BY.items())):
            name = min(there)
            raise UsageError(f"{self.place.name}: is not empty and holds no batch job (it has {name}); choose another")
        return begun

    def claim(self, identity: Mapping[str, Any], restart: bool) -> None:
        """Begin a job in a new or empty folder, or take up the one with the same identity."""
        there = self._files()
        begun = self._begun(there)
        if begun is not None and restart:
            for name in sorted(there, key=lambda name: name == JOB):
                self.place.delete(name)
        elif begun is not None:
            self._require_same(begun["job"], identity)
            return
        self.place.below(DONE).create_folder()
        self.place.below(JOB).write(_json({**MADE_BY, "job": identity}))

    def _require_same(self, begun: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
        identity = json.loads(_json(identity))
        if differs := [key for key in {**begun, **identity} if begun.get(key) != identity.get(key)]:
            raise UsageError(
                f"{self.place.name}: holds a job with another {' and another '.join(differs)}; give the command that "
                "started it to resume, --restart to start over, or choose another folder"
            )

    def committed(self, shards: Iterable[Shard]) -> dict[int, dict[str, Any]]:
        """The manifests of the shards that are done, by number."""
        sizes = self.place.sizes()
        found = {}
        for shard in shards:
            name = f"{DONE}/{shard.number:06d}.json"
            about = _read(self.place.below(name)) if name in sizes else None
            if about is not None and sizes.get(self.part(shard.number)) == about.get("size"):
                found[shard.number] = about
        return found

    def finish(self, identity: Mapping[str, Any], done: Mapping[int, Mapping[str, Any]]) -> None:
        """Write the list of failed rows and the manifest of the job."""
        self._require_driver()
        parts = [done[number] for number in sorted(done)]
        failed = [{"file": part["input"], **row} for part in parts for row in part["failed"]]
        if failed:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in failed)
            self.place.below(FAILED).write(lines.encode())
        kept = [{key: part[key] for key in ("part", "input", "first", "rows", "size", "sha256")} for part in parts]
        about = {**MADE_BY, "job": identity, "rows": sum(part["rows"] for part in parts), "failed": len(failed)}
        self.place.below(MANIFEST).write(_json({**about, "parts": kept}))

    @property
    def finished(self) -> bool:
        return self.place.below(MANIFEST).read() is not None


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def _read(place: Location) -> dict[str, Any] | None:
    """A JSON object; None if there is none, or no whole one."""
    content = place.read()
    try:
        found = json.loads(content) if content is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
