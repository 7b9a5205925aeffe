"""Checkpoints of sharded runs: torch.distributed.checkpoint (DCP), stored as safetensors.

DCP's own storage keeps its metadata as a pickle, which can run code when it is read. That of Hugging Face keeps each
rank's parts in a safetensors file, whose header says where in the whole tensors they belong; nothing else is read here.
"""

import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from qkv.core.errors import CorruptFolder
from qkv.training.run.checkpoint import is_sharded

WEIGHT = "weight/"
"""What the names of weights begin with; those of all other tensors are their own."""
PIECE = 32 << 20
"""Bytes of a rank's file, about: writing one takes twice its size in memory."""


def stored_tensors(folder: Path) -> dict[str, TensorStorageMetadata]:
    """Size, type and parts of each tensor in a checkpoint, sharded or not; raises CorruptFolder."""
    try:
        stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except Exception as error:
        # The reader trusts the headers, and may raise anything if they are not what it wrote itself.
        raise _unreadable(folder, error) from error
    found = {}
    for name, tensor in stored.items():
        assert isinstance(tensor, TensorStorageMetadata)
        if not _is_whole(tensor):
            raise CorruptFolder(f"{folder}: parts of {name} are missing, or do not fit; use an earlier checkpoint")
        found[name] = tensor
    return found


def _unreadable(folder: Path, error: BaseException) -> CorruptFolder:
    return CorruptFolder(f"{folder}: is not a readable checkpoint ({reason_of(error)}); use an earlier checkpoint")


def reason_of(error: BaseException) -> str:
    """In one line: what went wrong on the first rank where something did, if DCP collected that from all."""
    if isinstance(error, CheckpointException):
        error = next((error for error, _ in error.failures.values()), error)
    return str(error).partition("\n")[0] or type(error).__name__


def _is_whole(tensor: TensorStorageMetadata) -> bool:
    """Whether its parts are rows that follow each other without a gap; what none fills would hold anything."""
    end, whole = 0, [*tensor.size] or [1]
    for part in sorted(tensor.chunks, key=lambda part: (*part.offsets, *part.sizes)):
        offsets, sizes = [*part.offsets] or [0], [*part.sizes] or [1]
        if offsets != [end, *[0] * len(whole[1:])] or sizes[1:] != whole[1:]:
            return False
        end += int(sizes[0])
    return end == int(whole[0])


def stored_shapes(folder: Path) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The shapes of the weights, and of all other tensors."""
    return _apart({name: list(stored.size) for name, stored in stored_tensors(folder).items()})


def read_whole(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights and all other tensors of the checkpoint of a sharded run, put together by one process."""
    stored = stored_tensors(folder)
    tensors = {name: torch.empty(own.size, dtype=own.properties.dtype) for name, own in stored.items()}
    with warnings.catch_warnings():
        # That one process reads is what is wanted here.
        warnings.simplefilter("ignore", UserWarning)
        _load(folder, tensors, no_dist=True)
    return _apart(tensors)


Value = TypeVar("Value")


def _apart(tensors: dict[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    weights = {name.removeprefix(WEIGHT): own for name, own in tensors.items() if name.startswith(WEIGHT)}
    return weights, {name: own for name, own in tensors.items() if not name.startswith(WEIGHT)}


def read_into(folder: Path, weights: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> None:
    """Fill tensors of which each rank holds parts, from a checkpoint; raises CorruptFolder if they do not fit."""
    stored = stored_tensors(folder)
    prefix = WEIGHT if is_sharded(folder) else ""
    tensors = {f"{prefix}{name}": weight for name, weight in weights.items()} | dict(others)
    for name, tensor in tensors.items():
        if name not in stored or stored[name].size != tensor.shape or stored[name].properties.dtype != tensor.dtype:
            raise CorruptFolder(f"{folder}: does not fit the run (see {name}); use an earlier checkpoint")
    _load(folder, tensors, no_dist=False)


def _load(folder: Path, tensors: dict[str, Tensor], no_dist: bool) -> None:
    try:
        load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=no_dist)
    except CheckpointException as error:
        raise _unreadable(folder, error) from error


def file_numbers(tensors: Mapping[str, Tensor], most: int) -> dict[str, int]:
    """Which file each tensor goes to, from 1: as many in their order as have `most` bytes, at least one."""
    numbers, number, size = {}, 1, 0
    for name, tensor in tensors.items():
        size += tensor.numel() * tensor.itemsize
        if size > most and size > tensor.numel() * tensor.itemsize:
            number, size = number + 1, tensor.numel() * tensor.itemsize
        numbers[name] = number
    return numbers


def begin_to_write(
    folder: str, weights: Mapping[str, Tensor], others: Mapping[str, Tensor], group: dist.ProcessGroup
) -> Future[Any]:
    """Copy the tensors at once, and write them in a thread, each rank what it holds."""
    tensors = {f"{WEIGHT}{name}": weight for name, weight in weights.items()} | dict(others)
    numbers = file_numbers(tensors, PIECE * dist.get_world_size(group))
    writer = HuggingFaceStorageWriter(path=folder, save_distributed=True, fqn_to_index_mapping=numbers)
    future = async_save(tensors, storage_writer=writer, process_group=group)
    assert isinstance(future, Future)
    return future
