"""qkv evaluate of models that write no texts."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from qkv.core.progress import Reporter
    from qkv.evaluation.forecasting.evaluate import ForecastEvaluation
    from qkv.models.saved.folder import SavedModel


def asked_of(folder: Path) -> str | None:
    """What the model in `folder` is asked for; None if there is none, or one for another program."""
    from qkv.config import load_config
    from qkv.core.errors import CorruptFolder
    from qkv.models.saved.folder import CONFIG, WEIGHTS, SavedConfig
    from qkv.models.saved.locate import locate_model

    try:
        found = locate_model(folder)
    except CorruptFolder:  # reported by whoever opens it
        return None
    if not ((found / CONFIG).is_file() and (found / WEIGHTS).is_file()):
        return None
    return load_config(SavedConfig, found / CONFIG).model.asked


def evaluate_forecasting(
    model: Path, data: str | None, split: str | None, as_json: bool, idle: Mapping[str, object]
) -> None:
    """Errors of a forecasting model, beside those of simple forecasts; `idle` are options that mean nothing to it."""
    from qkv.cli.shared.tables import print_tables
    from qkv.core.errors import UsageError
    from qkv.core.progress import default_reporter
    from qkv.models.saved.folder import load_model

    if given := [name for name, value in idle.items() if value]:
        raise UsageError(f"{', '.join(given)}: only for models that write texts, not for forecasting; leave it out")
    reporter = default_reporter(quiet=2.0)
    try:
        with tempfile.TemporaryDirectory(prefix="qkv-") as folder:
            found = _forecasts(load_model(model), model, data, split, Path(folder), reporter)
    finally:
        reporter.close()
    if as_json:
        dicts = {name: one.as_dict() for name, one in found.items()}
        print(json.dumps(dicts.get("", dicts), indent=2))
    else:
        print_tables([one.table(name) for name, one in found.items()])


def _forecasts(
    saved: "SavedModel", model: Path, data: str | None, split: str | None, folder: Path, reporter: "Reporter"
) -> dict[str, "ForecastEvaluation"]:
    from qkv.evaluation.forecasting.evaluate import evaluate_forecasts
    from qkv.models.forecasting.config import ForecastingConfig

    config = saved.config.model
    assert isinstance(config, ForecastingConfig)
    own = _own_stores(saved, model, folder)
    tests = _given(data, split, folder) if data is not None else _chosen(own, model, split)
    learned = (own["train"], own.get("dev")) if "train" in own else None
    sizes, period = (config.context, config.horizon), saved.config.period or 1
    counting = reporter.counting("Forecasting")
    return {
        name: evaluate_forecasts(saved.model, store, sizes, period, counting, learned) for name, store in tests.items()
    }


def _own_stores(saved: "SavedModel", model: Path, folder: Path) -> dict[str, Any]:
    """The prepared data of the run's own recipe, as far as their files are there."""
    from qkv.core.errors import DataError
    from qkv.data.tasks import task_of
    from qkv.training.setup.own_data import own_recipe

    recipe = own_recipe(model)
    if recipe is None:
        return {}
    task = task_of(recipe.data)
    try:
        return task.prepare(task.parts(with_test=True), saved.tokenizers, folder / "own")
    except DataError as error:
        typer.echo(f"the data of {model} are not used: {error}", err=True)
        return {}


def _given(data: str, split: str | None, folder: Path) -> dict[str, Any]:
    from qkv.core.errors import UsageError
    from qkv.data.series.named import series_of
    from qkv.data.series.store import SeriesStore, build_series_store

    if split is not None:
        raise UsageError("--split: chooses from a run's own data, but other data is given; leave it out")
    build_series_store(folder / "given", series_of(data).read(Path(".")), "")
    return {"": SeriesStore.open(folder / "given")}


def _chosen(own: dict[str, Any], model: Path, split: str | None) -> dict[str, Any]:
    from qkv.core.errors import UsageError

    wanted = [name for name in ((split,) if split else ("test", "dev")) if name in own]
    if not wanted:
        what = split or "test or dev"
        raise UsageError(f"{model}: its recipe names no {what} data that could be read; give the data by --data FILE")
    return {name: own[name] for name in wanted}
