"""Squared error of forecasts, in units of each series' standard deviation."""

import torch

from qkv.data.series.batch import SeriesBatch
from qkv.models.base import Model
from qkv.models.forecasting.config import ForecastingConfig
from qkv.objectives.base import LossReport
from qkv.objectives.build import objective_kinds
from qkv.objectives.numbers.unused import unused_settings
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair


class SquaredError:
    """Σ ((ŷ - y) / σ)², with σ the standard deviation of the series, so that no series counts more by its unit."""

    def training_loss(self, model: Model, batch: SeriesBatch, update: int) -> LossReport:
        wrong = (model(batch).states - batch.future) / batch.scale[:, None, None]
        total = wrong.square().sum()
        return LossReport(total, float(total.detach()), float(wrong.numel()), likelihood=False)

    @torch.no_grad()
    def validation_loss(self, model: Model, batch: SeriesBatch) -> LossReport:
        return self.training_loss(model, batch, 0)


class FutureGivenPast:
    """The values that follow a window."""

    def problem(self, config: ObjectiveConfig, model: ForecastingConfig) -> str | None:
        return unused_settings(config, (), model.kind)

    def build(
        self, config: ObjectiveConfig, model: ForecastingConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> SquaredError:
        return SquaredError()


objective_kinds.register("future", FutureGivenPast())
