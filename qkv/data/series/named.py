"""A table of series as it is named on a command line: a file, or what a recipe would say."""

from pathlib import Path

from qkv.config.base import Config
from qkv.config.load import validate
from qkv.core.errors import UsageError
from qkv.data.readers.named import said_as_in_recipe, uncompressed_name
from qkv.data.series.kinds import AnySeries
from qkv.data.series.sources import SeriesSource


class _GivenSeries(Config):
    data: AnySeries


def series_of(given: str) -> SeriesSource:
    """The source for `co2.csv` or `co2.npz`, or for `{kind: csv, path: co2.csv, missing: interpolate}`."""
    if given.lstrip().startswith("{"):
        return said_as_in_recipe(_GivenSeries, given).data
    kind = Path(uncompressed_name(Path(given))).suffix.lower().removeprefix(".")
    if kind not in ("csv", "npz"):
        raise UsageError(
            f"{given}: the name does not say what kind of file it is (.csv, .npz); say it as in a recipe: "
            f"'{{kind: csv, path: {given}}}'"
        )
    return validate(_GivenSeries, {"data": {"kind": kind, "path": Path(given)}}, given).data
