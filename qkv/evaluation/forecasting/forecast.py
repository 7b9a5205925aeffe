"""Forecasts of series by a saved model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from qkv.core.errors import DataError
from qkv.data.series.sources import NamedSeries
from qkv.models.asked import require_asked
from qkv.models.forecasting.model import ForecastingModel
from qkv.models.saved.folder import load_model


class Forecaster:
    """A saved model that continues series.

    Example:
        >>> from qkv.data.series.named import series_of
        >>> series = series_of("co2.csv").read(Path("."), Path("empty_folder"))  # doctest: +SKIP
        >>> Forecaster("runs/co2").continued(series)  # doctest: +SKIP
        {'co2': [371.2, ...]}
    """

    def __init__(self, folder: Path | str) -> None:
        saved = load_model(folder)
        require_asked(saved.config.model, "forecast", folder)
        assert isinstance(saved.model, ForecastingModel)
        self.model = saved.model.forecaster
        self.context = self.model.context

    @torch.no_grad()
    def continued(self, series: Sequence[NamedSeries]) -> dict[str, list[float]]:
        """What follows the end of each series, by its name."""
        for own in series:
            if len(own.values) < self.context:
                raise DataError(
                    f"the series {own.name!r} has {len(own.values):,} values, but the model reads {self.context:,}; "
                    "give a longer one"
                )
        windows = np.stack([own.values[-self.context :] for own in series], axis=1)
        found = self.model(torch.from_numpy(windows).float()[None])[0]
        return {own.name: found[:, number].tolist() for number, own in enumerate(series)}
