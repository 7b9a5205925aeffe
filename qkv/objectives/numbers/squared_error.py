"""Squared error of forecasts, in units of each series' standard deviation."""

import torch

from qkv.data.series.batch import SeriesBatch
from qkv.data.series.store import SeriesStore
from qkv.data.series.windows import find_windows
from qkv.models.base import Model
from qkv.models.forecasting.config import ForecastingConfig
from qkv.objectives.base import LossReport
from qkv.objectives.build import ObjectiveKind, foreign_keys, objective_kinds
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair


class SquaredError:
    """Σ ((ŷ - y) / σ)², with σ the standard deviation of the series, so that no series counts more by its unit."""

    def training_loss(self, model: Model, batch: SeriesBatch, update: int) -> LossReport:
        wrong = (model(batch).states - batch.future) / batch.scale[:, None, None]
        total = wrong.square().sum()
        return LossReport(total, total.detach(), float(wrong.numel()), likelihood=False)

    @torch.no_grad()
    def validation_loss(self, model: Model, batch: SeriesBatch) -> LossReport:
        return self.training_loss(model, batch, 0)


class FutureGivenPast(ObjectiveKind):
    """The values that follow a window."""

    def problem(self, config: ObjectiveConfig, model: ForecastingConfig) -> str | None:
        return foreign_keys(config, model, ())

    def build(
        self, config: ObjectiveConfig, model: ForecastingConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> SquaredError:
        return SquaredError()

    def epoch_weight(self, config: ObjectiveConfig, model: ForecastingConfig, train: SeriesStore) -> int:
        """The values of all windows, each counted in every window that forecasts it."""
        return len(find_windows(train, model.context, model.horizon)) * model.horizon


objective_kinds.register("future", FutureGivenPast())
