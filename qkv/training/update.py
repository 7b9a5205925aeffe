"""One update's gradient: batches in, summed gradient and sums of the loss out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from qkv.data.batch import Batch
from qkv.errors import QkvError
from qkv.models.seq2seq import Seq2Seq
from qkv.objectives.teacher_forcing import TeacherForcing


@dataclass
class Sums:
    """Sums over the target tokens of an update."""

    loss: float = 0.0
    nll: float = 0.0
    weight: float = 0.0


def add_gradients(model: Seq2Seq, objective: TeacherForcing, batches: Sequence[Batch], update: int, bf16: bool) -> Sums:
    """Add the gradient of every batch to the parameters' `.grad`; nothing is divided here.

    A batch that does not fit into memory is split once by rows; each half is then tried as a whole.
    """
    sums = Sums()
    for batch in batches:
        try:
            _add_one(model, objective, batch, update, bf16, sums)
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or len(batch.pairs) < 2:
                raise _explained(error, batch) from error
        try:
            for half in batch.split():
                _add_one(model, objective, half, update, bf16, sums)
        except (RuntimeError, MemoryError) as error:
            raise _explained(error, batch) from error
    return sums


def _add_one(model: Seq2Seq, objective: TeacherForcing, batch: Batch, update: int, bf16: bool, sums: Sums) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        report = objective.training_loss(model, batch, update)
    report.sum.backward()  # type: ignore[no-untyped-call]
    sums.loss += float(report.sum.detach())
    sums.nll += report.nll
    sums.weight += report.weight


def is_out_of_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or "can't allocate memory" in words or "out of memory" in words


def _explained(error: BaseException, batch: Batch) -> BaseException:
    if not is_out_of_memory(error):
        return error
    rows, length = batch.src.shape[0], max(batch.src.shape[1], batch.tgt_in.shape[1])
    return QkvError(
        f"out of memory on a batch of {rows} pairs up to {length} tokens long, also after splitting it; "
        "lower batch.tokens (and raise training.accumulate to keep the update's size) or data.max_src_tokens"
    )
