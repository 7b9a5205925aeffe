"""What the settings of the loop promise: periods, schedules, the best model, patience, averages."""

import json
import math
import os
import signal
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from qkv.config import Period
from qkv.core.errors import UsageError
from qkv.core.files import read_manifest
from qkv.functional import schedules
from qkv.models.saved.folder import load_model
from qkv.models.saved.weights import named_weights, read_tensors
from qkv.training import loop
from qkv.training.ema import MovingAverage
from qkv.training.progress import SilentTrainingReporter, UpdateInfo
from qkv.training.recipe import Recipe
from qkv.training.run.average import average_run
from qkv.training.run.checkpoint import STATE, list_checkpoints, read_state
from qkv.training.run.folder import read_metrics
from qkv.training.run.state import RunProgress, TrainState
from qkv.training.schedules import LinearConfig
from qkv.training.trainer import Trainer
from qkv.training.validation import Validation, Validator
from tests.support.tiny import as_recipe, changed, everything, plain, updates_of, validations_of


def train(recipe: dict[str, Any]) -> Path:
    config = as_recipe(recipe)
    Trainer(config, SilentTrainingReporter()).train()
    return config.run


def steps(run: Path) -> list[int]:
    return [int(folder.name[5:]) for folder in list_checkpoints(run / "checkpoints")]


@pytest.mark.parametrize(
    ("period", "unit", "amount"),
    [
        ("7u", "updates", 7),
        ("0.1e", "epochs", 0.1),
        ("0.3e", "epochs", 0.3),
        ("150t", "tokens", 150),
        ("1m", "minutes", 1),
    ],
)
def test_a_period_passes_once_in_each_of_its_lengths(period: str, unit: str, amount: float) -> None:
    """Ten steps a unit: step k has passed floor(k / 10 / amount) periods, exactly, though tenths are not exact."""
    every, size = Period.parse(period), {"updates": 1, "epochs": 0.1, "tokens": 30, "minutes": 0.1}[unit]
    last = RunProgress()
    times = []
    for step in range(1, 61):
        now = RunProgress()
        setattr(now, unit, {"updates": step, "tokens": step * 30}.get(unit, step / 10))
        if now.passed(every, last):
            times.append(step)
            last = now
    per_step = round(amount / size)
    assert times == list(range(per_step, 61, per_step))


def test_a_late_look_counts_once() -> None:
    assert RunProgress(updates=21).passed(Period.parse("10u"), RunProgress(updates=9))
    assert not RunProgress(updates=29).passed(Period.parse("10u"), RunProgress(updates=21))
    assert RunProgress(updates=30).passed(Period.parse("10u"), RunProgress(updates=21))


@pytest.mark.parametrize(
    ("stop", "every", "updates", "validated"),
    [
        ("7u", "3u", 7, [3, 6, 7]),
        ("2e", "0.5e", 10, [3, 5, 8, 10]),
        ("1000t", "400t", None, None),
    ],
)
def test_periods_in_a_run(
    stop: str, every: str, updates: int | None, validated: list[int] | None, data: Path, scratch: Path
) -> None:
    """Five batches an epoch. Tokens: the first update at which a multiple is reached."""
    recipe = changed(plain(data, scratch / "run"), training={"stop_after": stop, "save_every": "999u", "keep_last": 99})
    run = train(changed(recipe, validation={"every": every}))
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "tgt_tokens" in line]
    if updates is None:
        total, due, multiple = 0, [], 1
        for line in lines:
            before, total = total, total + line["tgt_tokens"]
            assert before < 1000
            if total >= 400 * multiple:
                due.append(line["update"])
                multiple = total // 400 + 1
        assert total >= 1000
        updates, validated = len(lines), sorted({*due, len(lines)})
    assert len(lines) == updates
    assert [line["validation"] for line in validations_of(run)] == validated
    assert steps(run) == validated


def test_minutes(data: Path, scratch: Path) -> None:
    """A run of 1.2 seconds ends then, and saves every half of it; time goes on counting after a resume."""
    recipe = changed(plain(data, scratch / "run"), training={"stop_after": "0.02m", "save_every": "0.01m"})
    recipe["validation"]["every"] = "100u"
    result = Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    assert result.finished
    state = json.loads((list_checkpoints(scratch / "run" / "checkpoints")[-1] / "state.json").read_text())
    assert 0.02 <= state["progress"]["minutes"] < 1
    assert validations_of(scratch / "run")[-1]["validation"] == result.updates
    assert Trainer.resume(scratch / "run", [], SilentTrainingReporter()).train().updates == result.updates


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        (
            {"kind": "wsd", "peak": 1e-3, "warmup": 2, "decay": 0.5},
            lambda n: schedules.warm_up(n, 2) * schedules.stable_then_linear((n - 1) / 6, 1e-3, 0.5),
        ),
        ({"kind": "noam", "warmup": 3, "factor": 2.0}, lambda n: schedules.noam(n, 16, 3, 2.0)),
        ({"kind": "inverse_sqrt", "peak": 1e-3, "warmup": 3}, lambda n: 1e-3 * min(n / 3, math.sqrt(3 / n))),
        ({"kind": "linear", "peak": 1e-3, "warmup": 2}, lambda n: 1e-3 * min(n / 2, (7 - n) / 5)),
        ({"kind": "cosine", "peak": 1e-3}, lambda n: 0.5e-3 * (1 + math.cos(math.pi * (n - 1) / 6))),
        ({"kind": "cosine", "peak": 1e-3, "warmup": 3}, lambda n: 1e-3 * (n / 3 if n < 3 else half_wave((n - 3) / 4))),
        ({"kind": "constant", "peak": 1e-3, "warmup": 4}, lambda n: 1e-3 * min(n / 4, 1)),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_the_rate_of_every_update_is_logged(schedule: Any, rate: Any, data: Path, scratch: Path) -> None:
    run = train(plain(data, scratch / "run", 6) | {"schedule": schedule})
    assert rates_of(run) == pytest.approx([rate(n) for n in range(1, 7)])


def rates_of(run: Path) -> list[float]:
    return [line["lr"] for line in read_metrics(run / "metrics.jsonl") if "lr" in line]


def half_wave(fraction: float) -> float:
    return (1 + math.cos(math.pi * fraction)) / 2


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("stop_after", ["12u", "2e", "900t", "0.02m"])
def test_a_warm_up_ends_at_the_peak_whatever_the_unit_of_the_run(
    kind: str, stop_after: str, data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows beforehand how much of the run the warm-up takes; the decay starts where it ended."""
    # A clock that ticks whenever it is read: the same number of updates on every machine.
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=count(0, 0.02).__next__))
    recipe = changed(plain(data, scratch / "run"), training={"stop_after": stop_after})
    rates = rates_of(train(recipe | {"schedule": {"kind": kind, "peak": 1e-3, "warmup": 5}}))
    assert rates[:5] == pytest.approx([1e-3 * n / 5 for n in range(1, 6)])
    assert rates[4] == max(rates)
    assert all(later < earlier for earlier, later in pairwise(rates[4:]))
    assert rates[-1] < 0.5e-3


@pytest.mark.parametrize("stopped", [2, 4, 6])
def test_a_resumed_run_decays_as_if_it_had_not_stopped(stopped: int, data: Path, scratch: Path) -> None:
    """Before the end of the warm-up, at it, and after it."""
    schedule = {"schedule": {"kind": "linear", "peak": 1e-3, "warmup": 4}}
    whole = rates_of(train(plain(data, scratch / "whole", 9) | schedule))

    class StopAfter(SilentTrainingReporter):
        def update(self, info: UpdateInfo) -> None:
            if info.state.progress.updates == stopped:
                os.kill(os.getpid(), signal.SIGTERM)

    assert not Trainer(as_recipe(plain(data, scratch / "run", 9) | schedule), StopAfter()).train().finished
    Trainer.resume(scratch / "run", [], SilentTrainingReporter()).train()
    assert rates_of(scratch / "run") == whole


def test_a_longer_run_decays_from_where_its_warm_up_ended(data: Path, scratch: Path) -> None:
    run = train(plain(data, scratch / "run", 6) | {"schedule": {"kind": "linear", "peak": 1e-3, "warmup": 2}})
    Trainer.resume(run, ["training.stop_after=12u"], SilentTrainingReporter()).train()
    assert rates_of(run)[6:] == pytest.approx([1e-3 * (13 - n) / 11 for n in range(7, 13)])


def test_a_checkpoint_of_an_earlier_version_keeps_to_its_curve(tmp_path: Path) -> None:
    """It does not say where the warm-up ended: the decay then runs from the first update, as it did there."""
    folder = tmp_path / "step-00000050"
    folder.mkdir()
    saved = TrainState(progress=RunProgress(updates=50), warmed=RunProgress(updates=10)).as_dict()
    (folder / STATE).write_text(json.dumps(saved))
    assert read_state(folder).warmed == RunProgress(updates=10)
    del saved["warmed"]
    (folder / STATE).write_text(json.dumps(saved))
    assert read_state(folder).warmed == RunProgress()
    schedule = LinearConfig(peak=1.0, warmup=10)
    assert schedule.rate(51, 0.5, 64, warmed=0.0) == pytest.approx(0.5)
    assert schedule.rate(51, 0.5, 64, warmed=0.1) == pytest.approx(0.5 / 0.9)


def test_a_run_that_ends_in_its_warm_up_has_no_decay(data: Path, scratch: Path) -> None:
    rates = rates_of(
        train(plain(data, scratch / "run", 4) | {"schedule": {"kind": "linear", "peak": 1.0, "warmup": 9}})
    )
    assert rates == pytest.approx([n / 9 for n in range(1, 5)])
    assert LinearConfig(peak=1.0, warmup=9).rate(9, 1.0, 64, warmed=1.0) == pytest.approx(1.0)


def _scripted(monkeypatch: pytest.MonkeyPatch, name: str, scores: list[float]) -> None:
    """Validations give these scores, whatever the model is."""
    left = iter(scores)

    def validate(self: Validator, model: nn.Module, tick: Any) -> Validation:
        return Validation({"loss": 9.0, name: next(left)}, [])

    monkeypatch.setattr(Validator, "__call__", validate)


@pytest.mark.parametrize(
    ("name", "scores", "best", "last"),
    [
        ("loss", [3.0, 2.0, 2.5, 2.0, 2.1, 1.0, 0.5], 2, 5),
        ("exact", [1.0, 5.0, 7.0, 7.0, 6.0, 2.0, 9.0], 3, 6),
        ("wer", [9.0, 8.0, 7.0, float("nan"), 8.0, 7.5, 1.0], 3, 6),
    ],
)
def test_best_model_and_patience(
    name: str, scores: list[float], best: int, last: int, data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equal score is no better one; three validations without a better one end the run."""
    _scripted(monkeypatch, name, scores)
    metrics = [] if name == "loss" else [name]
    validation = {"every": "1u", "best": name, "metrics": metrics, "patience": 3}
    run = train(changed(plain(data, scratch / "run", 7), validation=validation, training={"keep_last": 1}))
    assert len(updates_of(run)) == last
    assert steps(run) == [best, last]
    assert dict(read_manifest(run / "best"))["update"] == best
    saved = read_tensors(run / "best" / "model.safetensors")
    kept = read_tensors(run / "checkpoints" / f"step-{best:08d}" / "model.safetensors")
    assert all(torch.equal(saved[key], kept[key]) for key in kept)
    assert [line["validation"] for line in validations_of(run) if line["best"]] == list(range(1, best + 1))


def test_moving_average_formula() -> None:
    """a_n = d_n a_(n-1) + (1 - d_n) w_n with d_n = min(d, (1 + n) / (10 + n)), in float64."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.5)
    expected = [parameter.detach().double().numpy().copy() for parameter in model.parameters()]
    for update in range(1, 21):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.add(model, update)
        decay = min(0.5, (1 + update) / (10 + update))
        expected = [
            decay * old + (1 - decay) * parameter.detach().double().numpy()
            for old, parameter in zip(expected, model.parameters(), strict=True)
        ]
    for ours, theirs in zip(average.averages, expected, strict=True):
        assert torch.allclose(ours.double(), torch.from_numpy(theirs), rtol=0, atol=1e-6)
    own = [parameter.detach().clone() for parameter in model.parameters()]
    with average.in_place_of(model):
        assert all(torch.equal(p, a) for p, a in zip(model.parameters(), average.averages, strict=True))
    assert all(torch.equal(p, o) for p, o in zip(model.parameters(), own, strict=True))


def test_the_average_is_what_is_validated_and_saved(data: Path, scratch: Path) -> None:
    run = train(changed(everything(data, scratch / "run", 4), validation={"every": "4u"}))
    tensors = read_tensors(run / "checkpoints" / "step-00000004" / "optimizer.safetensors")
    raw = read_tensors(run / "checkpoints" / "step-00000004" / "model.safetensors")
    for name, parameter in named_weights(load_model(run / "best").model).items():
        assert torch.equal(parameter, tensors[f"ema/{name}"])
        assert not torch.equal(parameter, raw[name])


@pytest.fixture(scope="module")
def several(in_memory: Path, data: Path) -> Path:
    """A run that keeps all its checkpoints."""
    recipe = changed(plain(data, in_memory / "several", 5), training={"save_every": "1u", "keep_last": 5})
    return train(changed(recipe, validation={"every": "2u"}))


@pytest.mark.parametrize(("which", "count"), [("last", 3), ("best", 2), ("last", 1)])
def test_average_is_the_mean_of_the_weights(which: str, count: int, several: Path, scratch: Path) -> None:
    used = average_run(several, scratch / "average", **{which: count})
    assert len(used) == count
    if which == "last":
        assert used == list_checkpoints(several / "checkpoints")[-count:]
    else:
        scores = {line["validation"]: line["loss"] for line in validations_of(several)}
        wanted = sorted(scores, key=lambda update: scores[update])[:count]
        assert [int(folder.name[5:]) for folder in used] == wanted
    weights = named_weights(load_model(scratch / "average").model)
    parts = [read_tensors(folder / "model.safetensors") for folder in used]
    for name, parameter in weights.items():
        flat = [part[name].double().flatten().tolist() for part in parts]
        mean = [sum(values) / count for values in zip(*flat, strict=True)]
        assert parameter.double().flatten().tolist() == pytest.approx(mean, abs=1e-7)


def test_average_refuses(several: Path, scratch: Path) -> None:
    with pytest.raises(UsageError, match="--last N or --best N"):
        average_run(several, scratch / "average")
    with pytest.raises(UsageError, match="--last N or --best N"):
        average_run(several, scratch / "average", last=2, best=2)
    with pytest.raises(UsageError, match=r"5 such checkpoints are there, not 6; raise training\.keep_last"):
        average_run(several, scratch / "average", last=6)
    with pytest.raises(UsageError, match="exists already"):
        average_run(several, scratch, last=2)
    with pytest.raises(UsageError, match="is not the folder of a run"):
        average_run(scratch, scratch / "average", last=2)
    assert not (scratch / "average").exists()


def test_recipe_refuses_what_cannot_be() -> None:
    base = {"data": {"train": {"kind": "tsv", "path": "a"}}, "text": {"shared": "char"}}
    for change, words in (
        ({"validation": {"best": "bleu"}}, "best is bleu, which must then also be in metrics"),
        ({"training": {"workers": 0}}, "workers must be auto or at least 1"),
        ({"model": {"share_embeddings": "all"}, "text": {"src": "char", "tgt": "char"}}, "needs one tokenizer"),
        ({"training": {"stop_after": 500}}, "500u"),
    ):
        with pytest.raises(UsageError, match=words):
            as_recipe(base | change)
    assert isinstance(as_recipe(base), Recipe)
