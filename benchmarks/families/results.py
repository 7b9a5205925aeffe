"""Results as JSON lines: one that is there is not measured again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]

MODELS = 2
"""Raised by hand when a model of `FAMILIES`, or how it starts or is trained, changes: what was measured before is then
measured anew. 2: recurrent models and ConvS2S start as published ones do."""


class Results:
    """The lines of a file; a key is what a measurement depends on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def all(self, key: Record) -> Iterator[Record]:
        """Those of the models as they are now that have everything of `key`."""
        key = {**key, "models": MODELS}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if key.items() <= record.items():
                    yield record

    def find(self, key: Record) -> Record | None:
        return next(self.all(key), None)

    def add(self, key: Record, **found: Any) -> Record:
        record = {**key, "models": MODELS, **found}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return record
