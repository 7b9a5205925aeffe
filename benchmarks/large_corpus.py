"""Does a corpus of ten million pairs train in bounded memory?

    python benchmarks/large_corpus.py --pairs 10000000 --folder /somewhere/with/5GB

Writes that many random pairs as two text files, prepares them as `qkv train` does, plans two epochs, checks the data
and trains for some updates, printing pairs a second and the peak resident memory after each stage.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from qkv.data.check import check_data
from qkv.data.store import PairStore
from qkv.data.stream import BatchStream
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.setup.prepare import prepare
from qkv.training.trainer import Trainer

WORDS = 5000
BLOCK = 50_000


def peak_megabytes() -> float:
    """The most memory that this process ever had resident (Linux counts in KiB, macOS in bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@contextmanager
def stage(name: str, pairs: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(
        f"{name:<10} {seconds:8.1f} s {pairs / seconds:12,.0f} pairs/s   peak {peak_megabytes():7.0f} MiB", flush=True
    )


def write_pairs(folder: Path, pairs: int, seed: int) -> None:
    """Random sentences of 3 to 20 words; the target has the words of the source backwards, and a few more."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, size)) for size in random.integers(2, 9, WORDS)]
    with (folder / "train.src").open("w", encoding="utf-8") as src, (folder / "train.tgt").open("w") as tgt:
        for first in range(0, pairs, BLOCK):
            for size in random.integers(3, 21, min(BLOCK, pairs - first)).tolist():
                sentence = [words[i] for i in random.integers(0, WORDS, size).tolist()]
                src.write(" ".join(sentence) + "\n")
                tgt.write(" ".join(sentence[::-1] + sentence[: size // 4]) + "\n")


def recipe(folder: Path, options: argparse.Namespace) -> Recipe:
    return Recipe.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"root": str(folder), "train": {"kind": "text", "src": "train.src", "tgt": "train.tgt"}},
            "text": {"shared": options.tokenizer},
            "batch": {"tokens": options.tokens},
            "model": {"preset": "tiny"},
            "training": {"stop_after": f"{options.updates}u"},
        }
    )


def measure(folder: Path, options: argparse.Namespace) -> None:
    pairs = options.pairs
    print(f"{'start':<10} peak {peak_megabytes():.0f} MiB")
    with stage("write", pairs):
        write_pairs(folder, pairs, options.seed)
    settings = recipe(folder, options)
    run = RunFolder(settings.run)
    run.create()
    with stage("prepare", pairs):
        prepared = prepare(settings, run, SilentTrainingReporter().counting)
    store = prepared.train
    assert isinstance(store, PairStore)
    print("\n".join(store.report.lines()))
    stream = BatchStream(store, prepared.tokenizers, settings.batch, options.seed)
    for epoch in (1, 0):
        with stage(f"plan {epoch}", len(store)):
            plan = stream.plan(epoch)
    print(f"{len(plan):,} batches, {plan.padding(store.src_len, store.tgt_len):.1%} padding")
    with stage("check", len(store)):
        check_data({"train": store}, prepared.tokenizers, settings.batch)
    del stream, plan
    seen = options.updates * len(store) // len(BatchStream(store, prepared.tokenizers, settings.batch, 1).plan(0))
    with stage("train", seen):
        Trainer(settings, SilentTrainingReporter()).train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--tokens", type=int, default=4096, help="batch budget")
    parser.add_argument("--updates", type=int, default=100, help="how long to train")
    parser.add_argument("--tokenizer", choices=["whitespace", "char", "sentencepiece", "bpe"], default="whitespace")
    parser.add_argument("--folder", type=Path, help="where the temporary files go")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options)


if __name__ == "__main__":
    main()
