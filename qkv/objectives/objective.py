"""What training and validation know of an objective."""

from typing import Protocol

from qkv.data.batch import Batch
from qkv.models.seq2seq import Seq2Seq
from qkv.objectives.report import LossReport


class Objective(Protocol):
    """A batch and a model to a loss."""

    def training_loss(self, model: Seq2Seq, batch: Batch, update: int) -> LossReport:
        """With all that is random or regularises; `update` counts from 1."""

    def validation_loss(self, model: Seq2Seq, batch: Batch) -> LossReport:
        """Plain negative log-likelihood; depends on nothing random."""
