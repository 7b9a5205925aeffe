"""Every kind of model on every kind of data that it learns from: resumed bit for bit, the same in any batch."""

from collections.abc import Callable

import pytest
import torch

from qkv.data.tasks import task_of
from qkv.models.kinds import models
from qkv.models.saved.folder import load_model
from qkv.objectives.build import objective_kinds, objective_of
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from qkv.training.setup.inspect_data import inspect_data
from qkv.training.setup.prepare import open_prepared
from qkv.training.trainer import Trainer
from tests.support.every_model import DATA, EVERY, MODELS, recipe
from tests.support.stopping import StoppingReporter
from tests.support.tiny import assert_same

STOPPED = 3
"""In the middle of an epoch, as the end is."""
every_pairing = pytest.mark.parametrize(("kind", "data"), EVERY)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Recipe]:
    """The recipe of a run that nobody stopped; trained once."""
    made = dict[tuple[str, str], Recipe]()

    def run_of(kind: str, data: str) -> Recipe:
        if (kind, data) not in made:
            folder = tmp_path_factory.mktemp(f"{kind}-{data}")
            made[kind, data] = recipe(kind, data, folder, folder / "straight")
            assert Trainer(made[kind, data]).train().finished
        return made[kind, data]

    return run_of


def test_every_registered_kind_is_tried() -> None:
    assert set(models.names()) == set(MODELS)
    assert {data for _, data in EVERY} == set(DATA)


@every_pairing
def test_a_resumed_run_is_the_one_that_was_never_stopped(
    kind: str, data: str, runs: Callable[[str, str], Recipe]
) -> None:
    straight = runs(kind, data)
    stopped = straight.model_copy(update={"run": straight.run.parent / "stopped"})
    assert not Trainer(stopped, StoppingReporter(STOPPED)).train().finished
    assert Trainer.resume(stopped.run).train().finished
    assert_same(stopped.run, straight.run)


@every_pairing
def test_the_loss_of_a_batch_is_that_of_its_examples(kind: str, data: str, runs: Callable[[str, str], Recipe]) -> None:
    """Whatever they are padded to, and with whichever others they are read."""
    plan = runs(kind, data)
    prepared = open_prepared(plan, RunFolder(plan.run))
    assert prepared.dev is not None
    task, one = task_of(plan.data), plan.batch.model_copy(update={"pairs": 1})
    objective = objective_of(plan.objective, plan.model, data, prepared.tokenizers, lambda: torch.ones(1))
    model = load_model(plan.run).model
    reports = []
    for batch in (plan.batch, one):
        stream = task.stream(prepared.dev, prepared.tokenizers, batch, seed=0)
        batches = [stream.batch(0, index) for index in range(len(stream.plan(0)))]
        assert sum(map(len, batches)) > 2
        assert (max(map(len, batches)) == 1) == (batch is one)
        with torch.no_grad():
            losses = [objective.validation_loss(model, each) for each in batches]
        reports.append((sum(float(each.nll) for each in losses), sum(float(each.weight) for each in losses)))
    weight = objective_kinds[plan.model.learns[data]].epoch_weight(plan.objective, plan.model, prepared.dev)
    assert reports[0][1] == reports[1][1] == weight, "what training.stop_after in tokens counts"
    assert reports[0][0] == pytest.approx(reports[1][0], rel=1e-5)


@pytest.mark.parametrize("data", sorted(DATA))
def test_data_are_looked_at_before_a_run(data: str, runs: Callable[[str, str], Recipe]) -> None:
    kind = next(kind for kind, own in EVERY if own == data)
    report = inspect_data(runs(kind, data), SilentTrainingReporter().counting)
    assert report.as_dict()
    shown = report.render()
    assert "train" in shown
    assert "dev" in shown
