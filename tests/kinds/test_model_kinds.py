"""Every kind of everything that a model and its training are made of: builds, trains, saves, loads, is documented."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.config import Config, dump_config, load_config
from qkv.config.base import Kinds
from qkv.data.batch import Batch, collate
from qkv.layers.attention import attentions
from qkv.layers.attention.normalizers import normalizers
from qkv.layers.attention.scores import scores
from qkv.layers.feed_forward import feed_forwards
from qkv.layers.position_offsets import offsets
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.base import Model
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.size import count_parameters
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.objectives.consistency import consistencies
from qkv.objectives.noise import noises
from qkv.objectives.smoothing import smoothings
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL
from qkv.training.schedules import AnySchedule, ConstantConfig, schedules
from tests.support.small import WORDS, decode, small_config, small_text, stir

TEXT, TOKENIZERS = small_text()
SIZE = len(TOKENIZERS.tgt)
UPDATES = 3
SIZES: dict[str, Any] = {"num_heads": 4, "encoder_layers": 1, "decoder_layers": 1}
SENTENCES = [("aa ab", "ab aa"), ("ba bb bc ca", "ca bc bb"), ("cc", "cc cb ca ac ab aa"), ("ab ca ab", "ba ba ab")]


class ScheduleHolder(Config):
    """A schedule as a field, to be written and read."""

    schedule: AnySchedule = ConstantConfig()
    """The schedule."""


@dataclass(frozen=True)
class Setting:
    """What a kind is tried in: the default parts, the kind in place of one of them."""

    model: TransformerConfig
    objective: ObjectiveConfig
    schedule: AnySchedule

    def fresh_model(self) -> Transformer:
        torch.manual_seed(5)
        return self.model.build(TOKENIZERS)

    def teacher(self) -> TeacherForcing:
        return self.objective.build(SIZE, SPECIAL, lambda: torch.arange(SIZE, dtype=torch.float64))


PLAIN = Setting(small_config(**SIZES), ObjectiveConfig(), ConstantConfig(peak=0.01))
MODEL_PARTS: dict[str, Kinds[Any]] = {
    "positions": positions,
    "position_offsets": offsets,
    "residual": residuals,
    "feed_forward": feed_forwards,
    "stack": stacks,
    "wiring": wirings,
    "encoder_attention": attentions,
    "score": scores,
    "normalizer": normalizers,
}
ATTENTIONS = ("encoder_attention", "decoder_attention", "cross_attention")
OBJECTIVE_PARTS: dict[str, Kinds[Any]] = {"smoothing": smoothings, "noise": noises, "consistency": consistencies}
REGISTRIES: dict[str, Kinds[Any]] = {**MODEL_PARTS, **OBJECTIVE_PARTS, "schedule": schedules}


def setting(key: str, kind: str) -> Setting:
    """`kind` with its defaults under `key`; noise is made strong enough to meet a token of a small batch."""
    if key in ("stack", "wiring"):
        # With one layer, the first one is the last one; reversible layers need a residual form that only adds.
        return replace(PLAIN, model=small_config(num_heads=4, residual="pre", **{key: kind}))
    if key == "encoder_attention" and attentions.example(kind).follows_output:
        own = {"encoder_attention": "causal", "cross_attention": attentions.example(kind)}
        return replace(PLAIN, model=small_config(**SIZES, **own))
    if key == "encoder_attention":
        return replace(PLAIN, model=small_config(**SIZES, **{key: attentions.example(kind)}))
    if key in ("score", "normalizer"):
        return replace(
            PLAIN, model=small_config(**SIZES, **{place: {"kind": "full", key: kind} for place in ATTENTIONS})
        )
    if key in MODEL_PARTS:
        return replace(PLAIN, model=small_config(**SIZES, **{key: kind}))
    if key == "smoothing":
        return replace(PLAIN, objective=ObjectiveConfig(smoothing=kind))
    if key == "noise":
        return replace(PLAIN, objective=ObjectiveConfig(noise=[{"kind": kind, "rate": 0.5}]))
    if key == "consistency":
        # Without dropout, two passes would be the same.
        return replace(
            PLAIN, model=small_config(**SIZES, dropout=0.1), objective=ObjectiveConfig(consistency={"kind": kind})
        )
    return replace(PLAIN, schedule=ScheduleHolder(schedule=kind).schedule)


ALL = [pytest.param(key, kind, id=f"{key}-{kind}") for key, kinds in REGISTRIES.items() for kind in kinds.names()]
every_kind = pytest.mark.parametrize(("key", "kind"), ALL)
every_part = pytest.mark.parametrize(("key", "kind"), [p for p in ALL if p.values[0] in MODEL_PARTS])


def sentences() -> Batch:
    src, tgt = (TOKENIZERS.src.encode_batch([pair[side] for pair in SENTENCES]) for side in range(2))
    return collate(src, tgt, SPECIAL, SPECIAL, range(len(SENTENCES)))


@lru_cache
def trained(key: str, kind: str) -> tuple[Transformer, list[float]]:
    """Three updates on one batch; the model, and the clean loss before, between and after."""
    trial, batch = setting(key, kind), sentences()
    model, teacher = trial.fresh_model(), trial.teacher()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = [clean_loss(teacher, model, batch)]
    for update in range(1, UPDATES + 1):
        optimizer.param_groups[0]["lr"] = trial.schedule.rate(update, update / 10, trial.model.d_model)
        optimizer.zero_grad()
        teacher.training_loss(model, batch, update).sum.backward()
        check_gradients(model, update)
        optimizer.step()
        losses.append(clean_loss(teacher, model, batch))
    return model, losses


@torch.no_grad()
def clean_loss(teacher: TeacherForcing, model: Transformer, batch: Batch) -> float:
    return float(teacher.validation_loss(model, batch).nll)


def check_gradients(model: Transformer, update: int) -> None:
    """All finite, and every matrix is really used: at the latest after the first update, if it starts switched off."""
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert update < UPDATES or parameter.dim() < 2 or bool(parameter.grad.any()), name


@every_kind
def test_three_updates_lower_the_loss(key: str, kind: str) -> None:
    _, losses = trained(key, kind)
    assert all(map(math.isfinite, losses))
    assert len(set(losses)) == 1 + UPDATES
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", schedules.names())
def test_a_schedule_is_positive_from_the_first_update_on(kind: str) -> None:
    schedule = setting("schedule", kind).schedule
    rates = [schedule.rate(update, update / 20_000, 128) for update in range(1, 20_000, 99)]
    assert all(map(math.isfinite, rates))
    assert min(rates) > 0
    assert max(rates) < 0.1


@pytest.mark.parametrize("key", REGISTRIES)
def test_no_two_kinds_are_the_same(key: str) -> None:
    """A kind that the builder forgets to look at would give the loss of another one."""
    found = {kind: fingerprint(setting(key, kind)) for kind in REGISTRIES[key].names()}
    assert len(found) >= 2
    assert len(set(found.values())) == len(found), found


def fingerprint(trial: Setting) -> tuple[float, float]:
    """The first training loss, and a learning rate late in a run: some kinds differ only there."""
    model = trial.fresh_model()
    # A kind may start as another one: rezero as the identity, the wiring dense as last.
    stir(model)
    torch.manual_seed(7)
    with torch.no_grad():
        loss = float(trial.teacher().training_loss(model, sentences(), 1).sum)
    return round(loss, 3), trial.schedule.rate(300, 0.9, 128)


@every_part
def test_saved_and_loaded_it_gives_the_same_bit_for_bit(key: str, kind: str, tmp_path: Path) -> None:
    trial, (model, _) = setting(key, kind), trained(key, kind)
    save_model(tmp_path / "model", SavedModel(model, TOKENIZERS, SavedConfig(model=trial.model, text=TEXT)))
    loaded = load_model(tmp_path / "model")
    assert loaded.config.model == trial.model
    assert not loaded.model.training
    assert torch.equal(log_probs(loaded.model), log_probs(model))
    assert not torch.equal(log_probs(trial.fresh_model()), log_probs(model))


def log_probs(model: Model) -> Tensor:
    batch = sentences()
    return model.head.log_probs(decode(model.eval(), batch.src, batch.src_keep, batch.tgt_in)).detach()


@every_part
def test_its_weights_are_counted_without_building_it(key: str, kind: str) -> None:
    trial = setting(key, kind)
    assert count_parameters(trial.model, TOKENIZERS) == sum(p.numel() for p in trial.fresh_model().parameters())


@every_kind
def test_its_settings_are_written_and_read_again(key: str, kind: str, tmp_path: Path) -> None:
    trial = setting(key, kind)
    for config in (trial.model, trial.objective, ScheduleHolder(schedule=trial.schedule)):
        (tmp_path / "config.yaml").write_text(dump_config(config), encoding="utf-8")
        assert load_config(type(config), tmp_path / "config.yaml") == config


@every_kind
def test_it_is_documented(key: str, kind: str) -> None:
    cls = REGISTRIES[key][kind]
    own = cls.__dict__.get("__doc__")
    assert own
    assert own.strip()
    assert own != cls.__mro__[1].__doc__
    undocumented = [name for name, field in cls.model_fields.items() if name != "kind" and not field.description]
    assert not undocumented


def test_the_sentences_are_in_the_vocabulary() -> None:
    assert {word for pair in SENTENCES for text in pair for word in text.split()} <= set(WORDS)
