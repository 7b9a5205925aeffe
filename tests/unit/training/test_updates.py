"""One update at a time: accumulation, out of memory, numbers that are not finite."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import QkvError
from qkv.core.files import sha256_of
from qkv.data.batch import Batch
from qkv.data.images.batch import ImageBatch
from qkv.data.series.batch import SeriesBatch
from qkv.data.tasks.base import TrainingBatch
from qkv.data.tasks.text_batch import collate_texts
from qkv.layers.feed_forward import FeedForward
from qkv.models.base import Model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.objectives.base import LossReport, Objective
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.text.special import SPECIAL
from qkv.training.loop import Loop
from qkv.training.progress import SilentTrainingReporter
from qkv.training.run.checkpoint import list_checkpoints
from qkv.training.run.folder import RunFolder, read_metrics
from qkv.training.session import make_loop
from qkv.training.setup.prepare import prepare
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Sums, Task, add_gradients
from qkv.training.team import Team
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, changed, everything, plain

NO_MEMORY = "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"


@pytest.fixture(scope="module")
def loop(in_memory: Path, data: Path) -> Loop:
    """Model, objective and data without anything random, so that a batch and its parts can be compared."""
    recipe = as_recipe(changed(plain(data, in_memory / "updates"), model={"dropout": 0.0}, batch={"tokens": 400}))
    run = RunFolder(recipe.run)
    run.create()
    silent = SilentTrainingReporter()
    return make_loop(recipe, prepare(recipe, run, silent.counting), None, Team(), silent.say)


def gradient_of(loop: Loop, batches: Sequence[TrainingBatch]) -> tuple[Tensor, Sums]:
    gradient = FlatGradient(loop.learner.model)
    gradient.clear()
    sums = added(loop, batches)
    return gradient.flat.clone(), sums


def added(loop: Loop, batches: Sequence[TrainingBatch], objective: Objective | None = None) -> Sums:
    """The sums of these batches, whose gradients are added."""
    task = Task(loop.learner.model, objective or loop.objective, 1, Precision())
    return Sums(*add_gradients(task, batches, loop.device).tolist())


def test_a_batch_is_the_sum_of_its_parts(loop: Loop) -> None:
    batch = loop.stream.batch(0, 0)
    assert len(batch) > 8
    whole, sums = gradient_of(loop, [batch])
    first, second = batch.split()
    for parts in ([first, second], [*first.split(), second], [second, first]):
        total, same = gradient_of(loop, parts)
        assert torch.allclose(total, whole, rtol=0, atol=1e-6 * sums.weight)
        assert same.weight == sums.weight
        assert (same.loss, same.nll) == pytest.approx((sums.loss, sums.nll), rel=1e-6)


def test_accumulation_is_one_larger_batch(loop: Loop) -> None:
    """The divided gradient: to 1e-6 the same, whatever the sizes of the parts."""
    batch = loop.stream.batch(0, 0)
    results = []
    for parts in ([batch], list(batch.split())):
        gradient = FlatGradient(loop.learner.model)
        gradient.clear()
        sums = added(loop, parts)
        results.append((gradient.finish(float(gradient.norm()), sums.weight, 0.5), gradient.flat))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert torch.allclose(results[0][1], results[1][1], rtol=0, atol=1e-6)
    assert float(torch.linalg.vector_norm(results[0][1])) == pytest.approx(0.5, rel=1e-5)


class Failing:
    """An objective that runs out of memory on some of its calls: before the loss, or half through the gradient."""

    def __init__(self, objective: Objective, calls: set[int], backward: bool) -> None:
        self.objective, self.calls, self.backward, self.number = objective, calls, backward, 0

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        self.number += 1
        if self.number in self.calls and not self.backward:
            raise RuntimeError(NO_MEMORY)
        if self.number in self.calls:
            self.hook = model.get_submodule("encoder").register_full_backward_pre_hook(self._fail)
        return self.objective.training_loss(model, batch, update)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self.objective.validation_loss(model, batch)

    def _fail(self, module: Any, gradient: Any) -> None:
        self.hook.remove()
        raise RuntimeError(NO_MEMORY)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("failing", [1, 2])
def test_out_of_memory_once(loop: Loop, failing: int, backward: bool) -> None:
    """The batch is split, and half a backward pass that was already added leaves no trace."""
    batches = [loop.stream.batch(0, 0), loop.stream.batch(0, 1)]
    whole, sums = gradient_of(loop, batches)
    objective = Failing(loop.objective, {failing}, backward)
    gradient = FlatGradient(loop.learner.model)
    gradient.clear()
    split = added(loop, batches, objective)
    assert objective.number == failing + 3
    assert torch.allclose(gradient.flat, whole, rtol=0, atol=1e-6 * sums.weight)
    assert split.weight == sums.weight
    assert split.loss == pytest.approx(sums.loss, rel=1e-6)


def test_out_of_memory_twice(loop: Loop) -> None:
    batch = loop.stream.batch(0, 0)
    objective = Failing(loop.objective, {1, 3}, False)
    with pytest.raises(QkvError, match=rf"out of memory on a batch of {len(batch) // 2} pairs .* lower batch\.tokens"):
        added(loop, [batch], objective)
    one = loop.stream.batch(0, 0, 0, len(batch))
    assert len(one) == 1
    with pytest.raises(QkvError, match=r"lower batch\.tokens"):
        added(loop, [one], Failing(loop.objective, {1}, False))


@pytest.mark.parametrize(
    ("batch", "remedy"),
    [
        (collate_texts([[7, 8]], SPECIAL, [0]), r"lower data\.max_tokens"),
        (ImageBatch(torch.zeros(1, 1, 4, 4), torch.tensor([0]), [0]), r"raise model\.patch"),
        (SeriesBatch(torch.zeros(1, 4, 1), torch.zeros(1, 2, 1), torch.ones(1), [0]), r"lower model\.context"),
    ],
)
def test_out_of_memory_names_a_key_that_the_data_has(loop: Loop, batch: TrainingBatch, remedy: str) -> None:
    with pytest.raises(QkvError, match=rf"out of memory .* lower batch\.tokens .*, or {remedy}$"):
        added(loop, [batch], Failing(loop.objective, {1}, False))


def test_other_errors_are_not_hidden(loop: Loop) -> None:
    class Broken(Failing):
        def training_loss(self, *_: object) -> LossReport:
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        added(loop, [loop.stream.batch(0, 0)], Broken(loop.objective, set(), False))


def test_out_of_memory_in_a_run(data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in a row ends the run with a sentence that says what to lower; the checkpoint before stays."""
    _poison(monkeypatch, at=9, times=4, change=_raise)
    with pytest.raises(QkvError, match=r"lower batch\.tokens"):
        Trainer(as_recipe(plain(data, scratch / "run")), SilentTrainingReporter()).train()
    assert [folder.name for folder in list_checkpoints(scratch / "run" / "checkpoints")][-1] == "step-00000008"


def _raise(report: LossReport) -> LossReport:
    raise RuntimeError(NO_MEMORY)


def _poison(monkeypatch: pytest.MonkeyPatch, at: int, times: int, change: Callable[[LossReport], LossReport]) -> None:
    """Change what the training loss gives from its call `at` on, so many times."""
    healthy = TeacherForcing.training_loss
    calls = 0

    def poisoned(self: TeacherForcing, model: Transformer, batch: Batch, update: int) -> LossReport:
        nonlocal calls
        report = healthy(self, model, batch, update)
        if torch.is_grad_enabled():  # the diagnosis looks at the batch again, without gradients
            calls += 1
            if at <= calls < at + times:
                return change(report)
        return report

    monkeypatch.setattr(TeacherForcing, "training_loss", poisoned)


def _nan_loss(report: LossReport) -> LossReport:
    return LossReport(report.sum * float("nan"), report.nll, report.weight)


def _nan_gradient(report: LossReport) -> LossReport:
    """A finite loss whose gradient is not."""

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * float("inf")

    return LossReport(Bad.apply(report.sum), report.nll, report.weight)


@pytest.mark.parametrize("change", [_nan_loss, _nan_gradient])
def test_a_bad_update_is_skipped(
    change: Callable[[LossReport], LossReport], data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not applied, counted, its pairs named; the run goes on with the next batch."""
    recipe = as_recipe(changed(plain(data, scratch / "run", 6), training={"save_every": "1u", "keep_last": 9}))
    _poison(monkeypatch, at=3, times=2, change=change)
    said: list[str] = []

    class Listener(SilentTrainingReporter):
        def say(self, sentence: str) -> None:
            said.append(sentence)

    assert Trainer(recipe, Listener()).train().updates == 6
    lines = read_metrics(scratch / "run" / "metrics.jsonl")
    skipped = [line for line in lines if "skipped" in line]
    assert [(line["skipped"], line["update"]) for line in skipped] == [(1, 3), (2, 3)]
    prepared = prepare(recipe, RunFolder(recipe.run), SilentTrainingReporter().counting)
    stream = make_loop(recipe, prepared, None, Team(), SilentTrainingReporter().say).stream
    assert skipped[0]["pairs"] == stream.batch(0, 2).examples
    assert skipped[1]["pairs"] == stream.batch(0, 3).examples
    assert [line["update"] for line in lines if "loss" in line and "update" in line] == [1, 2, 3, 4, 5, 6]
    assert sum("update 3 was not applied" in sentence for sentence in said) == 2
    assert all(word in said[-6] + said[-5] + said[-4] + said[-3] for word in ("in a row", "metrics.jsonl"))


def test_the_first_bad_module_is_named(data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = FeedForward.forward
    calls = 0

    def poisoned(self: FeedForward, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return healthy(self, x) * (float("inf") if calls >= 5 else 1.0)

    monkeypatch.setattr(FeedForward, "forward", poisoned)
    recipe = changed(plain(data, scratch / "run"), training={"max_bad_updates": 3})
    with pytest.raises(QkvError, match=r"3 updates in a row .* not finite; the last checkpoint is untouched"):
        Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    bad = [line for line in read_metrics(scratch / "run" / "metrics.jsonl") if "skipped" in line]
    assert [line["skipped"] for line in bad] == [1, 2, 3]
    assert bad[0]["first_bad"].startswith("output of encoder.")
    assert "feed_forward" in bad[0]["first_bad"]


def test_a_bad_weight_is_named_and_never_saved(data: Path, scratch: Path) -> None:
    """NaN in a weight after update 5: nothing of it reaches a checkpoint, and the run stops."""
    recipe = changed(everything(data, scratch / "run", 40), training={"max_bad_updates": 4, "save_every": "5u"})
    recipe["validation"]["every"] = "100u"

    class Spoil(SilentTrainingReporter):
        def update(self, info: Any) -> None:
            if info.state.progress.updates == 6:
                with torch.no_grad():
                    next(trainer_model()).view(-1)[0] = float("nan")

    models: list[Transformer] = []

    def trainer_model() -> Any:
        return models[-1].parameters()

    build = TransformerConfig.build

    def noted(*given: Any) -> Transformer:
        models.append(build(*given))
        return models[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransformerConfig, "build", noted)
        with pytest.raises(QkvError, match="4 updates in a row"):
            Trainer(as_recipe(recipe), Spoil()).train()
    folders = list_checkpoints(scratch / "run" / "checkpoints")
    assert [folder.name for folder in folders] == ["step-00000005"]
    name = next(name for name, _ in models[0].named_parameters())
    bad = [line for line in read_metrics(scratch / "run" / "metrics.jsonl") if "skipped" in line]
    assert bad[0]["first_bad"] == f"weight {name}"


def test_an_absurd_learning_rate(data: Path, scratch: Path) -> None:
    """Ends with a message and without a checkpoint of rubbish over the good one."""
    recipe = changed(plain(data, scratch / "run", 4))
    Trainer(as_recipe(recipe), SilentTrainingReporter()).train()
    good = {path: sha256_of(path) for path in (scratch / "run" / "checkpoints").rglob("*") if path.is_file()}
    config = scratch / "run" / "config.yaml"
    config.write_text(config.read_text().replace("peak: 0.003", "peak: 1e9"))
    changes = ["training.stop_after=40u", "validation.every=40u", "training.save_every=40u"]
    with pytest.raises(QkvError, match=r"10 updates in a row .* lower the learning rate"):
        Trainer.resume(scratch / "run", changes, SilentTrainingReporter()).train()
    assert {path: sha256_of(path) for path in good} == good
    assert len(list_checkpoints(scratch / "run" / "checkpoints")) == 1
