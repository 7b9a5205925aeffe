"""qkv evaluate of models that write no texts."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from qkv.core.progress import Reporter
    from qkv.data.tasks import DataTask
    from qkv.evaluation.report.tables import Table
    from qkv.models.saved.folder import SavedModel


class MeasuredPart(Protocol):
    """What was measured on one part of the data."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""

    def table(self, name: str) -> "Table":
        """For people."""


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


def evaluate_without_texts(
    model: Path, data: str | None, tsv: Path | None, split: str | None, as_json: bool, idle: Mapping[str, object]
) -> None:
    """Measure a model of images, series or labels; `idle` are options that mean nothing to it."""
    from qkv.cli.shared.tables import print_tables
    from qkv.core.errors import UsageError
    from qkv.core.progress import default_reporter
    from qkv.models.saved.folder import load_model

    saved = load_model(model)
    if given := [name for name, value in idle.items() if value]:
        kind = saved.config.model.kind
        raise UsageError(f"{', '.join(given)}: only for models that write texts, not for {kind}; leave it out")
    if data is not None and tsv is not None:
        raise UsageError("--data and --tsv hold both sides: give one of them alone")
    if split is not None and (data, tsv) != (None, None):
        raise UsageError("--split: chooses from a run's own data, but other data is given; leave it out")
    measure = {"forecast": _forecasts, "classify": _classes, "label": _labels}[saved.config.model.asked]
    reporter = default_reporter(quiet=2.0)
    try:
        with tempfile.TemporaryDirectory(prefix="qkv-") as folder:
            found = measure(saved, _Given(model, data, tsv, split, Path(folder)), reporter)
    finally:
        reporter.close()
    if as_json:
        dicts = {name: one.as_dict() for name, one in found.items()}
        print(json.dumps(dicts.get("", dicts), indent=2, ensure_ascii=False))
    else:
        print_tables([one.table(name) for name, one in found.items()])


class _Given:
    """What is to be measured, prepared in a temporary folder."""

    def __init__(self, model: Path, data: str | None, tsv: Path | None, split: str | None, folder: Path) -> None:
        self.model, self.data, self.tsv, self.split, self.folder = model, data, tsv, split, folder

    def own(self, saved: "SavedModel") -> dict[str, Any]:
        """The stores of the run's own recipe, as far as their files are there."""
        return self._of_recipe(
            lambda task: task.prepare(task.parts(with_test=True), saved.tokenizers, self.folder / "own")
        )

    def own_parts(self) -> dict[str, Any]:
        """The same before they are prepared."""
        return self._of_recipe(lambda task: task.parts(with_test=True))

    def _of_recipe(self, read: "Callable[[DataTask[Any, Any]], dict[str, Any]]") -> dict[str, Any]:
        from qkv.core.errors import DataError
        from qkv.data.tasks import task_of
        from qkv.training.setup.own_data import own_recipe

        recipe = own_recipe(self.model)
        if recipe is None:
            return {}
        try:
            return read(task_of(recipe.data))
        except DataError as error:
            typer.echo(f"the data of {self.model} are not used: {error}", err=True)
            return {}

    def chosen(self, own: dict[str, Any]) -> dict[str, Any]:
        """Test and dev, or the one that is asked for."""
        from qkv.core.errors import UsageError

        wanted = [name for name in ((self.split,) if self.split else ("test", "dev")) if name in own]
        if not wanted:
            what = self.split or "test or dev"
            raise UsageError(
                f"{self.model}: its recipe names no {what} data that could be read; give the data by --data FILE"
            )
        return {name: own[name] for name in wanted}


def _forecasts(saved: "SavedModel", given: _Given, reporter: "Reporter") -> Mapping[str, MeasuredPart]:
    from qkv.data.series.named import series_of
    from qkv.data.series.store import SeriesPart, SeriesStore, build_series_store
    from qkv.evaluation.forecasting.evaluate import evaluate_forecasts
    from qkv.models.forecasting.config import ForecastingConfig

    config, own = saved.config.model, given.own(saved)
    assert isinstance(config, ForecastingConfig)
    if given.data is None:
        tests = given.chosen(own)
    else:
        build_series_store(given.folder / "given", SeriesPart("test", (series_of(given.data),), Path(".")), "")
        tests = {"": SeriesStore.open(given.folder / "given")}
    learned = (own["train"], own.get("dev")) if "train" in own else None
    sizes, period = (config.context, config.horizon), saved.config.period or 1
    counting = reporter.counting("Forecasting")
    return {
        name: evaluate_forecasts(saved.model, store, sizes, period, counting, learned) for name, store in tests.items()
    }


def _classes(saved: "SavedModel", given: _Given, reporter: "Reporter") -> Mapping[str, MeasuredPart]:
    from qkv.core.errors import DataError
    from qkv.data.images.named import images_of
    from qkv.data.images.store import ImagePart, ImageStore, build_image_store
    from qkv.evaluation.classifying.evaluate import evaluate_classes
    from qkv.models.vision.config import VisionConfig
    from qkv.models.vision.model import VisionModel

    model, config = saved.model, saved.config.model
    assert isinstance(model, VisionModel)
    assert isinstance(config, VisionConfig)
    if given.data is None:
        tests = given.chosen(given.own(saved))
    else:
        part = ImagePart((images_of(given.data),), Path("."))
        build_image_store(given.folder / "given", part, "", saved.config.labels)
        tests = {"": ImageStore.open(given.folder / "given")}
    for name, store in tests.items():
        if problem := config.unreadable(store.pixels[0]):
            mend = f"give size: {[*config.image_size]} and channels: {config.channels} with a folder"
            raise DataError(f"{name or given.data}: {problem}; convert them, or {mend}")
    counting = reporter.counting("Classifying")
    return {name: evaluate_classes(model, store, counting) for name, store in tests.items()}


def _labels(saved: "SavedModel", given: _Given, reporter: "Reporter") -> Mapping[str, MeasuredPart]:
    from qkv.data.parts import CorpusPart
    from qkv.data.readers import TsvCorpus
    from qkv.data.readers.named import corpus_of
    from qkv.evaluation.classifying.labels import evaluate_labels

    if given.tsv is None and given.data is None:
        tests = given.chosen(given.own_parts())
    else:
        corpus = TsvCorpus(path=given.tsv) if given.data is None else corpus_of(given.data)
        tests = {"": CorpusPart((corpus,), Path("."), "error")}
    counting = reporter.counting("Labelling")
    found = {name: evaluate_labels(saved.model, saved.tokenizers, part, counting) for name, part in tests.items()}
    for remark in (remark for one in found.values() for remark in one.remarks):
        typer.echo(remark, err=True)
    return found
