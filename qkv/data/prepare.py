"""Opens the stores of a configuration, building those that are missing or out of date."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from qkv.core.errors import CorruptFolder
from qkv.core.files import read_manifest
from qkv.data.build import CountProgress, build_store
from qkv.data.parts import CorpusData, CorpusPart
from qkv.data.store import PairStore, StoreReport
from qkv.text.folder import TokenizerPair
from qkv.text.tokenizer import fingerprint

STORE_FORMAT = 1


def prepare_data(
    data: CorpusData,
    parts: Mapping[str, CorpusPart],
    tokenizers: TokenizerPair,
    folder: Path,
    progress: CountProgress | None = None,
    build: Callable[..., StoreReport] = build_store,
) -> dict[str, PairStore]:
    """The stores of `parts`, each in the subfolder of its name, built by `build` where the inputs have changed."""
    stores = {}
    for name, part in parts.items():
        inputs = _inputs(data, part, tokenizers)
        if not _up_to_date(folder / name, inputs):
            build(
                folder / name,
                part.corpora,
                part.root,
                part.invalid,
                data.limits,
                tokenizers,
                progress,
                part.keep,
                {"inputs": inputs},
            )
        stores[name] = PairStore.open(folder / name)
    return stores


def _inputs(data: CorpusData, part: CorpusPart, tokenizers: TokenizerPair) -> str:
    """A hash of everything that determines the contents of a store; files count by size and modification time."""
    files = [(part.root / path).resolve() for corpus in part.corpora for path in corpus.files().values()]
    inputs = {
        "format": STORE_FORMAT,
        # Without keys that are null: one that is new does not change the hash of data that has nothing of it.
        "corpora": [corpus.model_dump(mode="json", exclude_none=True) for corpus in part.corpora],
        "files": [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files],
        "invalid": part.invalid,
        "limits": (data.limits.max_src, data.limits.max_tgt),
        "holdout": data.holdout if part.keep is not None else None,
        "tokenizers": (fingerprint(tokenizers.src), fingerprint(tokenizers.tgt)),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _up_to_date(folder: Path, inputs: str) -> bool:
    try:
        return read_manifest(folder).get("inputs") == inputs and bool(len(PairStore.open(folder)))
    except CorruptFolder:
        # Missing or damaged: it is built either way.
        return False
