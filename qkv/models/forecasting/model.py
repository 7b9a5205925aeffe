"""The patched forecaster as a model that is trained, saved and asked for forecasts."""

from qkv.data.series.batch import SeriesBatch
from qkv.models.base import Inference, Model, Output
from qkv.models.forecasting.forecaster import PatchForecaster


class ForecastingModel(Model):
    """Batches of windows to forecasts [B, horizon, 1]."""

    kind = "forecasting"

    def __init__(self, forecaster: PatchForecaster) -> None:
        super().__init__()
        self.forecaster = forecaster

    def forward(self, batch: SeriesBatch) -> Output:
        return Output(self.forecaster(batch.past))

    def inference(self) -> Inference:
        return Inference(reason="a forecasting model writes no tokens, so it is not searched: use qkv forecast")
