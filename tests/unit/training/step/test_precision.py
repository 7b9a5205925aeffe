"""Lower precision: what stays in float32, and the scale of the loss in float16."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from qkv.core.errors import UsageError
from qkv.kernels.half.linears import comes_again
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from qkv.training.progress import SilentTrainingReporter
from qkv.training.run.checkpoint import list_checkpoints
from qkv.training.run.folder import read_metrics
from qkv.training.step import precision as precision_module
from qkv.training.step.precision import GROW_AFTER, Precision, next_scale
from qkv.training.trainer import Trainer
from tests.support.small import VOCAB, batch_of, small_model
from tests.support.tiny import as_recipe, assert_same, changed, plain

ISLANDS = ("_softmax", "native_layer_norm", "logsumexp", "log", "exp", "exp_")
"""Operations of softmax, norm and loss."""


class Types(TorchDispatchMode):
    """The types of what the islands, and of what matrix products, are given."""

    def __init__(self) -> None:
        super().__init__()
        self.islands: set[torch.dtype] = set()
        self.products: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").split(".")[0]
        given = {each.dtype for each in args if isinstance(each, Tensor) and each.is_floating_point()}
        if name in ISLANDS:
            self.islands |= given
        if name in ("mm", "addmm", "bmm", "linear"):
            self.products |= given
        return func(*args, **(kwargs or {}))


class Shapes(TorchDispatchMode):
    """The shapes of all matrix products in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[torch.Size, ...]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").split(".")[0]
        if name in ("mm", "addmm", "bmm", "baddbmm") and args[-1].dtype == torch.bfloat16:
            self.seen.add(tuple(each.shape for each in args if isinstance(each, Tensor)))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("positions", ["sinusoidal", "shaw"])
def test_products_in_bfloat16_have_few_shapes_whatever_the_batches(positions: str) -> None:
    """oneDNN keeps something for each shape as long as the process lives."""
    model = small_model(dropout=0.1, attention_dropout=0.1, positions=positions)
    objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    with Shapes() as shapes:
        for rows in range(20, 40):
            batch = batch_of([(1 + (rows + row) % 12, 1 + (3 * rows + row) % 13) for row in range(rows)])
            with Precision("bf16").autocast():
                report = objective.training_loss(model, batch, 1)
            report.sum.backward()
    # The model's own sizes are below 64.
    of_rows = {size for product in shapes.seen for shape in product for size in shape if size > 64}
    assert of_rows
    assert all(size == comes_again(size) for size in of_rows)


@pytest.mark.parametrize("residual", ["post", "pre"])
@pytest.mark.parametrize(("name", "low"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_softmax_norm_and_loss_stay_in_float32(name: str, low: torch.dtype, residual: str) -> None:
    model = small_model(residual=residual, dropout=0.1, attention_dropout=0.1)
    objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    with Types() as seen, Precision(name).autocast():
        report = objective.training_loss(model, batch_of([(4, 3), (2, 5)]), 1)
    assert low in seen.products
    assert seen.islands == {torch.float32}
    assert report.sum.dtype == torch.float32
    report.sum.backward()
    assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {torch.float32}


def test_the_scale_follows_the_rule_of_grad_scaler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_module, "GROW_AFTER", 3)
    ours, updates = 2.0**16, 0
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu", growth_interval=3)
    for finite in (True, True, False, True, True, True, True, False, False, True):
        ours, updates = next_scale(ours, updates, finite)
        weight.grad = scaler.scale(torch.tensor(1.0 if finite else torch.inf))
        scaler.step(optimizer)
        scaler.update()
        assert ours == scaler.get_scale()
    assert GROW_AFTER == 2000


def half(data: Path, run: Path) -> dict[str, Any]:
    return changed(plain(data, run), training={"precision": "fp16", "stop_after": "8u"})


def test_overflows_lower_the_scale_and_a_resumed_run_has_it(
    data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a scale that is far too large; the run is stopped among the updates that overflow."""
    monkeypatch.setattr(precision_module, "FIRST_SCALE", 2.0**36)
    straight, resumed = as_recipe(half(data, scratch / "straight")), as_recipe(half(data, scratch / "resumed"))
    Trainer(straight, SilentTrainingReporter()).train()
    lines = read_metrics(straight.run / "metrics.jsonl")
    overflows = [line["loss_scale"] for line in lines if "overflow" in line]
    assert len(overflows) > 3
    assert overflows == [2.0**36 / 2 ** (number + 1) for number in range(len(overflows))]
    assert len([line for line in lines if "loss" in line and "update" in line]) == 8
    state = json.loads((list_checkpoints(straight.run / "checkpoints")[-1] / "state.json").read_text())
    assert (state["loss_scale"], state["scale_updates"], state["skipped"]) == (overflows[-1], 8, 0)
    shorter = changed(half(data, scratch / "resumed"), training={"precision": "fp16", "stop_after": "4u"})
    Trainer(as_recipe(shorter), SilentTrainingReporter()).train()
    Trainer.resume(resumed, reporter=SilentTrainingReporter()).train()
    assert_same(resumed.run, straight.run)


def test_tf32_needs_cuda(data: Path, scratch: Path) -> None:
    recipe = as_recipe(changed(plain(data, scratch / "run"), training={"precision": "tf32", "device": "cpu"}))
    with pytest.raises(UsageError, match="tf32 needs a CUDA device"):
        Trainer(recipe, SilentTrainingReporter()).train()
    assert not recipe.run.exists()
