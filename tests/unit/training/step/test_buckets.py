"""Batches of few lengths for compiled training: the same losses and gradients."""

from collections.abc import Sequence, Sized

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.data.tasks.base import Store, TrainingBatch
from qkv.models.base import MaxLengths, Model
from qkv.objectives.base import Objective
from qkv.training.step.buckets import BucketedStream, bucket
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients
from tests.support.searched import SMALL
from tests.support.small import batch_of
from tests.support.trained import Build, of_other_data, other_models, seq2seq, teacher

LENGTHS = [(4, 9), (2, 5), (12, 1)]


class OneBatch:
    """A stream of one batch."""

    unit = "pairs"
    batch_tokens = 100

    def __init__(self, only: TrainingBatch) -> None:
        self.only = only

    @property
    def store(self) -> Store:
        raise NotImplementedError

    def plan(self, epoch: int) -> Sized:
        return [self.only]

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> TrainingBatch:
        return self.only

    def names(self, examples: Sequence[int]) -> list[str]:
        return [str(example) for example in examples]


def test_there_are_few_lengths_and_little_is_added() -> None:
    found = [bucket(length) for length in range(257)]
    assert all(length <= padded <= max(length + 3, 1.25 * length) for length, padded in enumerate(found))
    assert len(set(found[2:])) == 20
    assert found[:6] == [0, 1, 4, 4, 4, 8]
    assert [bucket(length) for length in set(found)] == list(set(found))


def test_what_a_model_can_read_is_the_limit() -> None:
    assert bucket(97, longest=100) == 100
    assert bucket(97, longest=50) == 97
    stream = BucketedStream(OneBatch(batch_of([(17, 3)])), MaxLengths(19, None))
    batch = stream.batch(0, 0)
    assert isinstance(batch, Batch)
    assert (batch.src.shape[1], batch.tgt_in.shape[1]) == (19, 4)
    assert (stream.names([3]), len(stream.plan(0))) == (["3"], 1)


def learned(model: Model, objective: Objective, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
    gradient = FlatGradient(model.train())
    sums = add_gradients(Task(model, objective, 3, Precision()), [batch], model.device)
    return sums, gradient.flat


def compare(build: Build, objective: Objective, batch: TrainingBatch) -> None:
    padded = BucketedStream(OneBatch(batch), MaxLengths()).batch(0, 0)
    assert isinstance(padded, Batch)
    assert isinstance(batch, Batch)
    assert padded.src.shape != batch.src.shape or padded.tgt_in.shape != batch.tgt_in.shape
    for found, wanted in zip(
        learned(build().double(), objective, padded), learned(build().double(), objective, batch), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_model_learns_the_same(kind: str) -> None:
    build, vocab = seq2seq(kind)
    compare(build, teacher(vocab), batch_of(LENGTHS, vocab=vocab))


@pytest.mark.parametrize("kind", sorted(set(other_models()) - {"masked_lm", "vision", "forecasting"}))
def test_so_do_models_of_other_data(kind: str) -> None:
    """A masked language model draws what it hides from the whole matrix, so it would learn from other words."""
    compare(*of_other_data(kind))


@pytest.mark.parametrize("kind", ["vision", "forecasting"])
def test_what_has_no_lengths_stays_as_it_is(kind: str) -> None:
    batch = of_other_data(kind)[2]
    assert BucketedStream(OneBatch(batch), MaxLengths()).batch(0, 0) is batch
