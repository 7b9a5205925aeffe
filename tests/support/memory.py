"""How much memory something takes."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def saved_bytes() -> Iterator[list[int]]:
    """The sizes in bytes of the tensors that autograd saves for the backward pass."""
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield sizes


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that `work` holds at a time in Python objects and numpy arrays; what is mapped from disk is not
    counted."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
