"""How close a training step comes to the speed of its bare matrix products.

Every matrix product of real training steps (forward and backward) is recorded with its shapes and strides; then the
products alone are computed again, on the same number of processes and threads, into memory that is already there. The
share of the step that they would need is the step's efficiency: 100 % would be a step without softmax, norms, dropout,
data or optimiser.

    python benchmarks/matrix_floor.py --data DIR/multi30k
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from qkv.kernels.memory import keep_freed_memory
from qkv.training.loop import Loop
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.session import make_loop
from qkv.training.setup.prepare import open_prepared, prepare
from qkv.training.team import Team

PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::addmm_": 1, "aten::mm.out": 0, "aten::baddbmm": 1}
"""Operator -> place of its first factor among the arguments."""


class RecordProducts(TorchDispatchMode):
    """Remembers the factors' sizes and strides of every product."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch leaves it without types
        self.shapes: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func._schema.name) + ("" if func._overloadname == "default" else f".{func._overloadname}")
        if name in PRODUCTS:
            self._note(*args[PRODUCTS[name] : PRODUCTS[name] + 2])
        elif name == "aten::_scaled_dot_product_flash_attention_for_cpu":
            self._note_attention(args[0], args[1], backward=False)
        elif name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward":
            self._note_attention(args[1], args[2], backward=True)
        return func(*args, **(kwargs or {}))

    def _note(self, a: Tensor, b: Tensor) -> None:
        self.shapes.append((tuple(a.shape), a.stride(), tuple(b.shape), b.stride()))

    def _note_attention(self, q: Tensor, k: Tensor, backward: bool) -> None:
        """The products inside PyTorch's attention kernel: QK and AV; backward dV, dA, dQ and dK."""
        queries, keys = q.flatten(0, 1), k.flatten(0, 1)
        weights = q.new_empty(len(queries), queries.shape[1], keys.shape[1])
        for _ in range(2 if backward else 1):
            self._note(queries, keys.transpose(1, 2))
            self._note(weights, keys)


def replay(shapes: list[tuple[Any, ...]]) -> float:
    """Seconds for the products alone."""
    buffers: dict[tuple[Any, ...], tuple[Tensor, Tensor, Tensor]] = {}
    for key in set(shapes):
        a_shape, a_stride, b_shape, b_stride = key
        a = torch.randn(_storage(a_shape, a_stride)).as_strided(a_shape, a_stride)
        b = torch.randn(_storage(b_shape, b_stride)).as_strided(b_shape, b_stride)
        buffers[key] = (a, b, a @ b)
    began = time.perf_counter()
    for key in shapes:
        a, b, out = buffers[key]
        torch.matmul(a, b, out=out)
    return time.perf_counter() - began


def _storage(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def recipe(data: Path, run: Path, preset: str) -> Recipe:
    return Recipe.model_validate(
        {
            "run": str(run),
            "data": {"root": str(data), "train": {"kind": "text", "src": "train.en", "tgt": "train.de"}},
            "text": {"shared": {"kind": "sentencepiece", "vocab_size": 8000}},
            "model": {"preset": preset},
        }
    )


class Alone(Team):
    """Takes its rows of every batch but exchanges nothing: the exchange is measured by train_throughput.py."""

    def all_reduce(self, tensor: Tensor) -> None:
        pass


def measure(settings: Recipe, rank: int, world: int, updates: int, results: Any) -> None:
    """In one of `world` processes: seconds of whole steps and of their products, alternating."""
    keep_freed_memory()
    prepared, say = open_prepared(settings, RunFolder(settings.run)), SilentTrainingReporter().say
    loop: Loop = make_loop(settings, prepared, None, Alone(rank, world), say)
    for _ in range(5):
        loop.update_once()
    ratios = []
    for _ in range(updates):
        state = (loop.state.epoch, loop.state.batch)
        began = time.perf_counter()
        loop.update_once()
        step = time.perf_counter() - began
        loop.state.epoch, loop.state.batch = state
        with RecordProducts() as recorded:
            loop.update_once()
        replay(recorded.shapes)
        ratios.append(replay(recorded.shapes) / step)
    results.put(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train.en and train.de")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = recipe(options.data, Path(folder), options.preset)
        run = RunFolder(settings.run)
        run.create()
        prepare(settings, run, SilentTrainingReporter().counting)
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        processes = [
            context.Process(target=measure, args=(settings, rank, options.workers, options.updates, results))
            for rank in range(options.workers)
        ]
        for process in processes:
            process.start()
        ratios = [ratio for _ in processes for ratio in results.get()]
    share = statistics.median(ratios)
    print(f"{options.preset}, {options.workers} workers: products alone take {share:.0%} of the step (median)")
    print(json.dumps({"preset": options.preset, "workers": options.workers, "products_share": round(share, 3)}))


if __name__ == "__main__":
    main()
