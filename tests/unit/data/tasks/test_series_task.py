"""Series as the data of a recipe: windows as the model reads them, values held out, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import ConfigError, DataError, UsageError
from qkv.data.config import BatchConfig
from qkv.data.tasks import task_of
from qkv.data.tasks.series import SeriesConfig
from qkv.text import TextConfig
from qkv.training.recipe import Recipe

SIZES = {"context": 8, "horizon": 2, "patch": 4, "stride": 2, "d_model": 8, "num_heads": 2}


def recipe(root: Path, data: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    table = {"kind": "series", "root": str(root), "train": {"kind": "csv", "path": "a.csv"}, **(data or {})}
    return Recipe.model_validate({"data": table, "model": {"kind": "forecasting", **SIZES}, **changes})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("time,x,y\n" + "".join(f"{t},{t},{-t}\n" for t in range(30)))
    return tmp_path


def test_the_model_tells_the_data_what_a_window_is(root: Path) -> None:
    found = recipe(root)
    assert isinstance(found.data, SeriesConfig)
    assert (found.data.context, found.data.horizon) == (8, 2)
    again = Recipe.model_validate(found.model_dump(mode="json"))
    assert again == found


@pytest.mark.parametrize(
    ("data", "changes", "sentence"),
    [
        ({"context": 9}, {}, "model.context (8) and data.context (9) must be equal; leave out data.context"),
        ({}, {"text": {"tgt": "char"}}, "text: data.kind series takes nothing; tgt was given"),
        ({}, {"model": {"d_model": 8, "num_heads": 2}}, "data.context: is missing"),
        ({}, {"objective": {"noise": [{"kind": "drop", "rate": 0.1}]}}, "objective.noise is not for model.kind"),
        ({}, {"validation": {"metrics": ["bleu"]}}, "data.dev or data.holdout"),
        ({"period": 9}, {}, "period (9) must not be above context (8)"),
        ({"holdout": 3, "dev": {"kind": "csv", "path": "a.csv"}}, {}, "give dev or holdout, not both"),
        ({}, {"model": {"kind": "forecasting", **SIZES, "patch": 9}}, "a window of 8 values has no patches of 9"),
    ],
)
def test_wrong_combinations_are_refused(
    root: Path, data: dict[str, Any], changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe(root, data, **changes)
    assert sentence in str(caught.value)


def test_a_model_of_texts_does_not_learn_from_series(root: Path) -> None:
    given = {"context": 8, "horizon": 2}
    with pytest.raises(ConfigError, match=r"model\.kind transformer learns from data\.kind .*pairs.*, not from series"):
        recipe(root, given, model={"d_model": 8, "num_heads": 2})


def test_the_last_values_are_held_out(root: Path) -> None:
    task = task_of(recipe(root, {"holdout": 5}).data)
    tokenizers = TextConfig().train(lambda: [], lambda: [])
    stores = task.prepare(task.parts(), tokenizers, root / "data")
    train, dev = stores["train"].series, stores["dev"].series
    assert [len(series.values) for series in train] == [25, 25]
    assert [(series.start, len(series.values)) for series in dev] == [(25, 30), (25, 30)]
    stream: Any = task.stream(stores["dev"], tokenizers, BatchConfig(tokens=4), seed=1)
    assert len(stream.windows) == 8  # 4 places of 2 values among 5, in two series
    shown = task.check(stores, tokenizers, BatchConfig()).render()
    assert "windows of 8 values, forecasts of 2" in shown
    assert "train: 2 series, 32 windows" in shown
    assert "  x: 5 values after 25; 25 to 29, mean 27" in shown
    held = task_of(recipe(root, {"holdout": 30}).data)
    with pytest.raises(UsageError, match="holdout is 30, but the series 'x' has 30 values; leave some to train on"):
        held.prepare(held.parts(), tokenizers, root / "other")
    few = task_of(recipe(root, {"train": {"kind": "csv", "path": "a.csv", "stop": 0.2}}).data)
    with pytest.raises(DataError, match="train: no series has 8 values and 2 more to forecast"):
        few.prepare(few.parts(), tokenizers, root / "few")


def test_held_out_values_do_not_fill_a_gap_of_train(tmp_path: Path) -> None:
    values = [str(t) if t not in (23, 24, 25) else "" for t in range(29)] + ["1000"]
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{value or 'NA'}\n" for value in values))
    gaps = {"kind": "csv", "path": "a.csv", "missing": "interpolate"}
    task = task_of(recipe(tmp_path, {"train": gaps, "holdout": 5}).data)
    stores = task.prepare(task.parts(), TextConfig().train(lambda: [], lambda: []), tmp_path / "data")
    assert stores["train"].series[0].values.tolist() == [*range(23), 22, 22]
    assert stores["dev"].series[0].values.tolist() == [*range(29), 1000]


def test_a_batch_has_at_most_as_many_as_batch_pairs_says(root: Path) -> None:
    task, tokenizers = task_of(recipe(root).data), TextConfig().train(lambda: [], lambda: [])
    train = task.prepare(task.parts(), tokenizers, root / "data")["train"]
    few = BatchConfig(tokens=64, pairs=4)
    stream: Any = task.stream(train, tokenizers, few, seed=1)
    sizes = [len(stream.batch(0, index)) for index in range(len(stream.plan(0)))]
    assert (sum(sizes), max(sizes)) == (42, 4)
    assert task.batches(train, few) == 42 / 4


def test_windows_that_train_has_too_are_counted(tmp_path: Path) -> None:
    values = [*range(20), *[7] * 12, *range(8)]
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))
    later = {"kind": "csv", "path": "a.csv", "start": 0.5}
    task = task_of(recipe(tmp_path, {"dev": later}).data)
    tokenizers = TextConfig().train(lambda: [], lambda: [])
    stores = task.prepare(task.parts(), tokenizers, tmp_path / "data")
    report = task.check(stores, tokenizers, BatchConfig())
    found = report.as_dict()
    assert found["windows"] == {"train": 31, "dev": 19}
    # Ten values of 7 alone stand at three places; with what follows they are one window and two copies of it.
    assert found["duplicates"] == {"train": 2, "dev": 2}
    # Eight values of 7 stand at five places of the twelve.
    assert found["constant"] == {"train": 5, "dev": 5}
    assert found["overlaps"] == {"dev": {"pairs": 19, "sources": 19, "total": 19}}
    assert task.overlap(stores["dev"], stores["train"]) == report.overlaps["dev"]
    said = report.render()
    assert "  2 exact duplicates, 5 windows of one value\n" in said
    assert said.endswith("\n\ndev and train: 19 of 19 windows of dev are in train\n")


def test_values_that_are_only_read_are_not_shared(root: Path) -> None:
    """A window of dev may reach back into train; what it is to forecast is not there."""
    table = {"kind": "csv", "path": "a.csv"}
    parts = {"train": {**table, "stop": 0.6}, "dev": {**table, "start": 0.6}}
    task, tokenizers = task_of(recipe(root, parts).data), TextConfig().train(lambda: [], lambda: [])
    stores = task.prepare(task.parts(), tokenizers, root / "data")
    assert task.check(stores, tokenizers, BatchConfig()).overlaps["dev"].pairs == 0
