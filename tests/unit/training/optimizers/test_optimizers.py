"""Each optimiser against a slow definition; which weights Muon takes; state that goes out and comes back."""

from pathlib import Path

import pytest
import torch
from torch import nn

from qkv.config.load import validate
from qkv.core.errors import UsageError
from qkv.functional.orthogonal import newton_schulz
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.training.optimizers import (
    AdamW,
    AdamWConfig,
    Muon,
    MuonConfig,
    OptimizerConfig,
    ScheduleFreeConfig,
    optimizers,
)
from qkv.training.optimizers.muon import hidden_matrices
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.average import average_run
from qkv.training.trainer import Trainer
from tests.support.tiny import plain, write_data


class Small(nn.Module):
    """Two linear layers of one shape and one of another, a token table, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 6)])
        self.norm = nn.LayerNorm(6)
        self.double()


def small() -> Small:
    torch.manual_seed(1)
    return Small()


def give_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)


def test_muon_takes_the_linear_layers_and_adamw_the_rest() -> None:
    model = build_model(
        TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1), 11, 11, 0
    )
    names = set(hidden_matrices(model))
    assert all(name.endswith(".weight") for name in names)
    assert not any("tokens" in name or "norm" in name for name in names)
    # Four of each attention (three of them) and two of each feed-forward network (two of them).
    assert len(names) == 3 * 4 + 2 * 2
    optimizer = MuonConfig().build(model)
    assert set(optimizer.others.names) == {name for name, _ in model.named_parameters()} - names


def test_a_weight_tied_to_a_table_is_not_hidden() -> None:
    model = small()
    head = nn.Linear(4, 7, bias=False).double()
    head.weight = model.table.weight
    model.layers.append(head)
    assert len(hidden_matrices(model)) == 3


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_muon_is_its_equation(weight_decay: float) -> None:
    model = small()
    config = MuonConfig(momentum=0.9, factor=0.5, weight_decay=weight_decay)
    optimizer = config.build(model)
    expected = {name: parameter.detach().clone() for name, parameter in hidden_matrices(model).items()}
    buffers = {name: torch.zeros_like(weight) for name, weight in expected.items()}
    for update, rate in enumerate((0.1, 0.02, 0.3)):
        give_gradients(model, update)
        for name, parameter in hidden_matrices(model).items():
            assert parameter.grad is not None
            buffers[name] = 0.9 * buffers[name] + parameter.grad
            direction = newton_schulz(parameter.grad + 0.9 * buffers[name])
            expected[name] *= 1 - rate * weight_decay
            expected[name] -= rate * 0.5 * max(parameter.shape) ** 0.5 * direction
        optimizer.step(rate)
    for name, parameter in hidden_matrices(model).items():
        torch.testing.assert_close(parameter.detach(), expected[name])


def test_muon_moves_the_rest_as_adamw_does() -> None:
    model, twin = small(), small()
    muon, adamw = MuonConfig(weight_decay=0.1).build(model), AdamWConfig(weight_decay=0.1).build(twin)
    for update in range(3):
        give_gradients(model, update)
        give_gradients(twin, update)
        muon.step(0.1)
        adamw.step(0.1)
    hidden = hidden_matrices(model)
    for (name, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs) == (name not in hidden)


def test_adamw_is_pytorchs() -> None:
    model, twin = small(), small()
    ours = AdamWConfig(weight_decay=0.1, eps=1e-8).build(model)
    matrices = [parameter for parameter in twin.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in twin.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.98), eps=1e-8)
    for update in range(3):
        give_gradients(model, update)
        give_gradients(twin, update)
        ours.step(0.1)
        theirs.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_schedule_free_is_its_equations(weight_decay: float) -> None:
    model = small()
    optimizer = ScheduleFreeConfig(beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=weight_decay).build(model)
    y = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    z, x = dict(y), dict(y)
    v = {name: torch.zeros_like(weight) for name, weight in y.items()}
    total = 0.0
    for update, rate in enumerate((0.01, 0.1, 0.1, 0.05), start=1):
        give_gradients(model, update)
        total += max(rate, 0.1 if update > 1 else 0.0) ** 2
        share = max(rate, 0.1 if update > 1 else 0.0) ** 2 / total
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            v[name] = 0.9 * v[name] + 0.1 * parameter.grad**2
            direction = parameter.grad / ((v[name] / (1 - 0.9**update)).sqrt() + 1e-3)
            if parameter.dim() > 1:
                direction = direction + weight_decay * y[name]
            z[name] = z[name] - rate * direction
            x[name] = (1 - share) * x[name] + share * z[name]
            y[name] = 0.2 * z[name] + 0.8 * x[name]
        optimizer.step(rate)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), y[name])
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with optimizer.averaged():
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.detach(), x[name])
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


@pytest.mark.parametrize("kind", optimizers.names())
def test_restored_state_gives_the_same_next_step(kind: str) -> None:
    config: OptimizerConfig = optimizers[kind](kind=kind)
    model, twin = small(), small()
    first, second = config.build(model), config.build(twin)
    give_gradients(model, 0)
    first.step(0.1)
    twin.load_state_dict(model.state_dict())
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for each in (model, twin):
        give_gradients(each, 1)
    first.step(0.1)
    second.step(0.1)
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_missing_gradient_is_named() -> None:
    model = small()
    optimizer = Muon(hidden_matrices(model).items(), AdamW([]))
    with pytest.raises(ValueError, match=r"layers\.0\.weight has no gradient"):
        optimizer.step(0.1)


def test_an_optimizer_without_kind_is_adamw(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    recipe = plain(data, tmp_path / "run")
    recipe["optimizer"] = {"beta2": 0.9}
    assert validate(Recipe, recipe, "recipe").optimizer == AdamWConfig(beta2=0.9)
    recipe["optimizer"] = "muon"
    assert validate(Recipe, recipe, "recipe").optimizer == MuonConfig()


def test_there_is_one_average_of_the_weights(tmp_path: Path) -> None:
    recipe = plain(write_data(tmp_path / "data"), tmp_path / "run") | {"optimizer": "schedule_free"}
    recipe["training"] |= {"ema": 0.9}
    with pytest.raises(UsageError, match=r"averages the weights already; leave out training\.ema"):
        validate(Recipe, recipe, "recipe")
    del recipe["training"]["ema"]
    Trainer(validate(Recipe, recipe | {"schedule": "constant"}, "recipe"), SilentTrainingReporter()).train()
    with pytest.raises(UsageError, match="schedule_free averages already; use "):
        average_run(tmp_path / "run", tmp_path / "average", last=1)
