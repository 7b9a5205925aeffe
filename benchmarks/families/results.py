"""Results as JSON lines: one that is there is not measured again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Results:
    """The lines of a file; `key` is what a measurement depends on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def all(self, part: str) -> Iterator[Record]:
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record["part"] == part:
                    yield record

    def find(self, key: Record) -> Record | None:
        return next((found for found in self.all(key["part"]) if key.items() <= found.items()), None)

    def add(self, key: Record, **found: Any) -> Record:
        record = {**key, **found}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return record
