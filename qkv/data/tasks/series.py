"""`data.kind: series`: numbers in the order of time; a window of them is read, and what follows it is forecast."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from qkv.data.arrays.repeats import Hashes, count_repeated, hash_overlap
from qkv.data.arrays.stored import inputs_hash, is_up_to_date
from qkv.data.build import CountProgress
from qkv.data.check import advice_lines
from qkv.data.config import BatchConfig, DataConfig, as_list, data_kinds
from qkv.data.overlap import Overlap
from qkv.data.series.batch import SeriesStream
from qkv.data.series.kinds import AnySeries
from qkv.data.series.repeats import count_constant, window_hashes
from qkv.data.series.sources import NamedSeries
from qkv.data.series.store import SeriesPart, SeriesStore, build_series_store
from qkv.data.series.windows import find_windows
from qkv.data.tasks.base import DataTask, data_tasks
from qkv.text.folder import TokenizerPair


@data_kinds.register
class SeriesConfig(DataConfig):
    """Tables of numbers, and the windows that are cut from them."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "train": {"kind": "csv", "path": "series.csv"},
        "context": 48,
        "horizon": 12,
    }
    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = (frozenset(),)

    kind: Literal["series"] = "series"
    train: Annotated[tuple[AnySeries, ...], BeforeValidator(as_list), Field(min_length=1)]
    """Series to learn from: one table or a list of them. Every column is a series of its own."""
    dev: AnySeries | None = None
    """Series to choose the best model by."""
    test: AnySeries | None = None
    """Series for the final score; training never reads them, `qkv evaluate RUN` measures on them."""
    holdout: int | None = Field(default=None, ge=1)
    """Without `dev`: the last values of each series of `train`, this many, become it."""
    context: int = Field(ge=2)
    """Values of a window; by default those of the model."""
    horizon: int = Field(ge=1)
    """Values to forecast; by default those of the model."""
    period: int = Field(default=1, ge=1)
    """Values of a season, such as 12 for months: for the seasonal naive forecast and for MASE."""

    @model_validator(mode="after")
    def _period_fits(self) -> "SeriesConfig":
        if self.period > self.context:
            raise ValueError(f"period ({self.period}) must not be above context ({self.context})")
        return self

    @property
    def longest(self) -> tuple[int, int]:
        return self.context, self.horizon


@dataclass(frozen=True)
class SeriesSummary:
    """What one series is like."""

    name: str
    values: int
    """Values to forecast."""
    read_before: int
    """Values before them, which are only read."""
    lowest: float
    mean: float
    highest: float

    def line(self) -> str:
        before = f" after {self.read_before:,}" if self.read_before else ""
        spread = f"{self.lowest:g} to {self.highest:g}, mean {self.mean:g}"
        return f"  {self.name}: {self.values:,} values{before}; {spread}"


@dataclass(frozen=True)
class SeriesCheck:
    """Statistics of all parts."""

    series: dict[str, list[SeriesSummary]]
    windows: dict[str, int]
    duplicates: dict[str, int]
    """Part -> windows that equal an earlier one, what follows them included."""
    constant: dict[str, int]
    """Part -> windows that hold one value again and again."""
    overlaps: dict[str, Overlap]
    """Part -> windows that train has, too, what follows them included."""
    context: int
    horizon: int
    advice: list[str] = field(default_factory=list)

    def with_advice(self, sentences: list[str]) -> "SeriesCheck":
        """The same with advice, one sentence each."""
        return replace(self, advice=sentences)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """For people."""
        lines = [f"windows of {self.context} values, forecasts of {self.horizon}"]
        for name, summaries in self.series.items():
            lines += ["", f"{name}: {len(summaries):,} series, {self.windows[name]:,} windows"]
            lines += [summary.line() for summary in summaries]
            lines.append(f"  {self.duplicates[name]:,} exact duplicates, {self.constant[name]:,} windows of one value")
        lines += [""] if self.overlaps else []
        lines += [own.line(name, "windows") for name, own in self.overlaps.items()]
        return "\n".join([*lines, *advice_lines(self.advice)]) + "\n"


class SeriesTask(DataTask[SeriesPart, SeriesStore]):
    """See `DataTask`."""

    unit = "windows"

    def __init__(self, data: SeriesConfig) -> None:
        self.data = data

    def parts(self, progress: CountProgress | None = None, with_test: bool = False) -> dict[str, SeriesPart]:
        data = self.data
        parts = {"train": SeriesPart("train", data.train, data.root, data.holdout)}
        if data.has_dev:
            sources = data.train if data.dev is None else (data.dev,)
            parts["dev"] = SeriesPart("dev", sources, data.root, data.holdout)
        if with_test and data.test is not None:
            parts["test"] = SeriesPart("test", (data.test,), data.root)
        for part in parts.values():
            for source in part.sources:
                source.file(part.root)
        return parts

    def prepare(
        self,
        parts: Mapping[str, SeriesPart],
        tokenizers: TokenizerPair,
        folder: Path,
        progress: CountProgress | None = None,
    ) -> dict[str, SeriesStore]:
        stores = {}
        for name, part in parts.items():
            files = [source.file(part.root) for source in part.sources]
            described = [part.holdout, *(source.model_dump(mode="json") for source in part.sources)]
            inputs = inputs_hash("series", described, files)
            if not is_up_to_date(folder / name, inputs):
                build_series_store(folder / name, part, inputs, progress)
            stores[name] = SeriesStore.open(folder / name)
            find_windows(stores[name], self.data.context, self.data.horizon)
        return stores

    def open(self, folder: Path) -> SeriesStore:
        return SeriesStore.open(folder)

    def stream(
        self, store: SeriesStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> SeriesStream:
        return SeriesStream(store, self.data.context, self.data.horizon, batch.single_tokens, seed)

    def check(
        self,
        stores: Mapping[str, SeriesStore],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> SeriesCheck:
        hashes = {name: self._hashes(store, progress) for name, store in stores.items()}
        others = {name: own for name, own in hashes.items() if name != "train"}
        context, horizon = self.data.context, self.data.horizon
        return SeriesCheck(
            series={name: [_summary(series) for series in store.series] for name, store in stores.items()},
            windows={name: len(own) for name, own in hashes.items()},
            duplicates={name: count_repeated(own) for name, own in hashes.items()},
            constant={name: count_constant(store, context, horizon) for name, store in stores.items()},
            overlaps={name: hash_overlap(own, hashes["train"]) for name, own in others.items()},
            context=context,
            horizon=horizon,
        )

    def batches(self, train: SeriesStore, batch: BatchConfig) -> float:
        windows = find_windows(train, self.data.context, self.data.horizon)
        return max(1.0, len(windows) / batch.single_tokens)

    def facts(self, train: SeriesStore) -> dict[str, Any]:
        return {"period": self.data.period}

    def overlap(
        self, part: SeriesStore, train: SeriesStore, progress: CountProgress = lambda done, total: None
    ) -> Overlap:
        return hash_overlap(self._hashes(part), self._hashes(train, progress))

    def _hashes(self, store: SeriesStore, progress: CountProgress = lambda done, total: None) -> Hashes:
        return window_hashes(store, self.data.context, self.data.horizon, progress)


def _summary(series: NamedSeries) -> SeriesSummary:
    own = np.asarray(series.values[series.start :])
    return SeriesSummary(series.name, len(own), series.start, float(own.min()), float(own.mean()), float(own.max()))


data_tasks.register("series", SeriesTask)
