"""Vectors of texts by actors: the work of `qkv embed` on files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from qkv.core.files import read_manifest
from qkv.core.progress import Reporter
from qkv.models.saved.locate import locate_model
from qkv.translate.ask.vectors import Pooling, TextVectors
from qkv.translate.cluster.connection import connected, require_ray
from qkv.translate.cluster.formats import Columns, RowResult
from qkv.translate.cluster.job import Do, JobOptions, file_job
from qkv.translate.cluster.shipped import ShippedFolder, ship

AT_ONCE = 64


@dataclass(frozen=True)
class Embedding:
    """One vector for each text."""

    folder: ShippedFolder
    pooling: Pooling
    normalize: bool
    verb: str = "Encoding"
    at_once: int = AT_ONCE
    gpu: bool = False

    @property
    def columns(self) -> Columns:
        return {"vector": "list"}

    def open(self) -> Do:
        import torch

        torch.set_num_threads(1)
        with self.folder.here() as folder:
            vectors = TextVectors(folder)

        def embed(texts: Sequence[str], numbers: Sequence[int]) -> list[RowResult]:
            found = []
            for text, own in zip(texts, vectors.encode(texts), strict=True):
                vector = own.pooled(self.pooling, self.normalize)[0].tolist()
                line = json.dumps({"text": text, "vector": vector}, ensure_ascii=False) + "\n"
                found.append(RowResult(line, {"vector": vector}, ("were cut",) if own.cut else ()))
            return found

        return embed


def embed_files(
    on: str,
    workers: int | None,
    work: tuple[Path, Pooling, bool],
    source: str,
    output: str,
    options: JobOptions,
    restart: bool,
    reporter: Reporter,
) -> None:
    """Write the vectors of the texts in the files that `source` names into the folder `output`.

    `work` is the model, the pooling, and whether vectors get length 1.
    """
    require_ray(on)
    model, pooling, normalize = work
    folder = locate_model(model)
    TextVectors(folder)  # says what is wrong with the model
    job = file_job(source, output, ".jsonl", options, reporter)
    identity = {
        "model": read_manifest(folder)["checksum"],
        "pooling": [pooling, normalize],
        "column": options.column,
        "handling of invalid UTF-8": options.invalid,
        "version of qkv": version("qkv"),
    }
    with connected(on, workers) as cluster:
        job.run(cluster, Embedding(ship([folder])[0], pooling, normalize), identity, restart, reporter)
