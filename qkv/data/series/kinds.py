"""The kinds of series sources, as the type of a field."""

from typing import Annotated

from qkv.data.series import csv, npz
from qkv.data.series.sources import SeriesSource, series_sources

AnySeries = Annotated[SeriesSource, series_sources]

__all__ = ["AnySeries", "csv", "npz"]
