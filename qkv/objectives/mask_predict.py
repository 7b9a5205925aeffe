"""Masked tokens from the source and from the tokens that are not masked."""

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.parallel.glancing import choose_some
from qkv.models.base import Model
from qkv.models.decoders.mask_predict import MaskPredictConfig
from qkv.models.decoders.nat import NatModel
from qkv.objectives.auxiliary import with_auxiliary_losses
from qkv.objectives.base import LossReport
from qkv.objectives.nat import LengthPairs
from qkv.objectives.parts import ObjectiveParts, objectives


class MaskPredict:
    """u ~ U{1 .. |Y|} tokens of each target are masked, and only they carry a loss."""

    def __init__(self, decoder: MaskPredictConfig, parts: ObjectiveParts) -> None:
        self.decoder = decoder
        self.parts = parts

    @with_auxiliary_losses
    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        assert isinstance(model, NatModel)
        pairs = LengthPairs(model, batch, self.parts)
        masked = choose_some(pairs.inside, how_many(pairs.lengths))
        tgt_in = torch.where(masked, pairs.open, pairs.targets)
        return pairs.loss(tgt_in, self.parts.smoothing, self.decoder.length_weight)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        """Every other token is masked, from the first on: half of them, and nothing random."""
        assert isinstance(model, NatModel)
        pairs = LengthPairs(model, batch, self.parts)
        every_other = torch.arange(pairs.targets.shape[1], device=pairs.targets.device) % 2 == 0
        tgt_in = torch.where(every_other, pairs.open, pairs.targets)
        return pairs.loss(tgt_in, self.parts.plain, self.decoder.length_weight)


def how_many(lengths: Tensor) -> Tensor:
    """u ~ U{1 .. |Y|} for each length."""
    return (torch.rand(lengths.shape, device=lengths.device) * lengths).floor().long() + 1


objectives.register("mask_predict", MaskPredict)
