"""Consistency: what the two passes read, what is counted of them, and that runs with it are runs like any other."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import consistent_cross_entropy, no_smoothing, sim_cut
from qkv.models.transformer.model import Transformer
from qkv.objectives.base import LossReport
from qkv.objectives.consistency import consistencies
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.small import VOCAB, batch_of, decode, small_model
from tests.support.tiny import as_recipe, everything, plain, updates_of, write_recipe

LENGTHS = [(3, 5), (6, 2), (1, 0), (4, 7), (2, 3)]
every_kind = pytest.mark.parametrize("kind", consistencies.names())
SAME_INPUT: dict[str, dict[str, Any]] = {"rdrop": {"kind": "rdrop"}, "simcut": {"kind": "simcut", "rate": 0.0}}
"""Each kind with two passes that read the same; without dropout they are the same."""


def teacher(consistency: dict[str, Any] | str | None, **others: Any) -> TeacherForcing:
    config = ObjectiveConfig(consistency=consistency, **others)
    return config.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))


def loss_of(objective: TeacherForcing, model: Transformer, batch: Batch, seed: int = 1) -> LossReport:
    torch.manual_seed(seed)
    return objective.training_loss(model, batch, 1)


def gradient(model: Transformer, report: LossReport) -> list[Tensor]:
    model.zero_grad()
    report.sum.backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def value(report: LossReport) -> float:
    return float(report.sum.detach())


class Reader:
    """Remembers what the model was given to read and what its embeddings gave out."""

    def __init__(self, model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[tuple[Tensor, Tensor, Tensor]] = []
        self.embedded: list[Tensor] = []
        monkeypatch.setattr(model, "forward", self._watched(model.forward))
        for embedder in (model.src_embedder, model.tgt_embedder):
            monkeypatch.setattr(embedder.positions, "embed", self._embedding(embedder.positions.embed))

    def _watched(self, forward: Any) -> Any:
        def watched(batch: Batch) -> Any:
            self.read.append((batch.src, batch.src_keep, batch.tgt_in))
            return forward(batch)

        return watched

    def _embedding(self, embed: Any) -> Any:
        def watched(x: Tensor, pos: Tensor) -> Any:
            self.embedded.append(x.detach())
            return embed(x, pos)

        return watched


@every_kind
def test_passes_that_are_the_same_give_the_plain_loss_and_gradient(kind: str) -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    found, wanted = loss_of(teacher(SAME_INPUT[kind]), model, batch), loss_of(teacher(None), model, batch)
    assert value(found) == pytest.approx(value(wanted), rel=1e-6)
    assert found.nll == pytest.approx(float(wanted.nll), rel=1e-6)
    assert found.weight == wanted.weight
    for one, two in zip(gradient(model, found), gradient(model, wanted), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@every_kind
def test_passes_that_differ_cost_more_the_more_consistency_weighs(kind: str) -> None:
    """By exactly the weight's part, for the same draw of dropout and cuts."""
    model, batch = small_model(dropout=0.2), batch_of(LENGTHS)
    losses = [value(loss_of(teacher({"kind": kind, "weight": weight}), model, batch)) for weight in (0, 2, 6)]
    assert losses[1] > losses[0] + 0.1
    assert losses[2] - losses[0] == pytest.approx(3 * (losses[1] - losses[0]), rel=1e-3)


@every_kind
def test_another_draw_another_loss(kind: str) -> None:
    model, batch, objective = small_model(dropout=0.2), batch_of(LENGTHS), teacher(kind)
    first, again, other = (value(loss_of(objective, model, batch, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@every_kind
def test_both_passes_are_one_forward_of_a_doubled_batch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    reader = Reader(model, monkeypatch)
    loss_of(teacher(kind), model, batch)
    ((src, src_keep, tgt_in),) = reader.read
    rows = len(batch)
    assert torch.equal(src[:rows], batch.src)
    assert torch.equal(tgt_in[:rows], batch.tgt_in)
    assert torch.equal(src_keep, torch.cat([batch.src_keep] * 2))
    assert len(src) == len(tgt_in) == 2 * rows


@every_kind
def test_validation_reads_the_clean_input_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    wanted = teacher(None).validation_loss(model, batch)
    reader = Reader(model, monkeypatch)
    found = teacher(kind).validation_loss(model, batch)
    ((src, _, tgt_in),) = reader.read
    assert src is batch.src
    assert tgt_in is batch.tgt_in
    assert value(found) == value(wanted)


@every_kind
def test_noise_is_the_same_in_both_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    reader = Reader(model, monkeypatch)
    noise = [{"kind": "replace", "rate": 0.5}]
    loss_of(teacher(SAME_INPUT[kind], noise=noise), model, batch)
    ((_, _, tgt_in),) = reader.read
    first, second = tgt_in.chunk(2)
    assert torch.equal(first, second)
    assert not torch.equal(first, batch.tgt_in)


def test_simcut_cuts_ordinary_tokens_of_both_sides_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), batch_of([(30, 30), (20, 40)] * 30)
    before = [x.clone() for x in (batch.src, batch.src_keep, batch.tgt_in, batch.tgt_out, batch.tgt_weight)]
    reader = Reader(model, monkeypatch)
    loss_of(teacher({"kind": "simcut", "rate": 0.2}), model, batch)
    after = (batch.src, batch.src_keep, batch.tgt_in, batch.tgt_out, batch.tgt_weight)
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    ((src, _, tgt_in),) = reader.read
    for ids, clean in ((src.chunk(2)[1], batch.src), (tgt_in.chunk(2)[1], batch.tgt_in)):
        ordinary = clean > max(SPECIAL.pad, SPECIAL.bos, SPECIAL.eos)
        cut = ids != clean
        assert not bool(cut[~ordinary].any())
        assert set(ids[cut].tolist()) == {SPECIAL.pad}
        trials = int(ordinary.sum())
        assert abs(int(cut.sum()) - 0.2 * trials) < 4 * math.sqrt(trials * 0.2 * 0.8)


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_cut_tokens_are_exactly_zero_before_positions(share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the row of the padding is trained by the output head; the clean pass is not touched."""
    model, batch = small_model(share_embeddings=share), batch_of(LENGTHS)
    assert bool(model.src_embedder.tokens.weight[SPECIAL.pad].any())
    reader = Reader(model, monkeypatch)
    loss_of(teacher({"kind": "simcut", "rate": 0.4}), model, batch)
    ((src, _, tgt_in),) = reader.read
    embedders = (model.src_embedder, model.tgt_embedder)
    for ids, embedded, embedder in zip((src, tgt_in), reader.embedded, embedders, strict=True):
        assert torch.equal((embedded == 0).all(dim=2), ids == SPECIAL.pad)
        read = ids != SPECIAL.pad
        assert torch.equal(embedded[read], embedder.tokens(ids)[read].detach())
    assert bool(model.src_embedder.tokens(batch.src[1:2])[0].any(dim=1).all()), "zeros only while it trains"


def test_simcut_is_two_passes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """CE of the clean pass and the divergence from the cut one; the likelihood is the clean one's."""
    model, batch = small_model().double(), batch_of(LENGTHS)
    with torch.no_grad():
        model.src_embedder.tokens.weight[SPECIAL.pad] = 0  # so that padding alone is a cut token
        model.tgt_embedder.tokens.weight[SPECIAL.pad] = 0
    reader = Reader(model, monkeypatch)
    report = loss_of(teacher({"kind": "simcut", "rate": 0.4, "weight": 2.0}, smoothing="none"), model, batch)
    ((src, _, tgt_in),) = reader.read
    counts = batch.tgt_weight > 0
    passes = [
        model.head.log_probs(model.states(src[rows], batch.src_keep, tgt_in[rows]))[counts]
        for rows in (slice(len(batch)), slice(len(batch), None))
    ]
    pairs, targets = torch.stack(passes, dim=1), batch.tgt_out[counts]
    wanted, nll = consistent_cross_entropy(pairs, targets, no_smoothing(VOCAB), sim_cut(2.0))
    assert value(report) == pytest.approx(float(wanted.detach()), rel=1e-10)
    assert report.nll == pytest.approx(float(nll), rel=1e-10)
    assert value(report) > float(nll) + 0.1
    ours, theirs = gradient(model, report), gradient(model, LossReport(wanted, 0.0, 0.0))
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-10)


def test_nothing_is_left_in_the_model_when_a_pass_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small_model(), batch_of(LENGTHS)

    def fails(*_: Tensor) -> None:
        raise RuntimeError("on purpose")

    before = decode(model, batch.src, batch.src_keep, batch.tgt_in)
    with monkeypatch.context() as broken:
        broken.setattr(model.encoder, "forward", fails)
        with pytest.raises(RuntimeError, match="on purpose"):
            loss_of(teacher("simcut"), model, batch)
    assert torch.equal(decode(model, batch.src, batch.src_keep, batch.tgt_in), before)


@every_kind
def test_no_token_that_counts_gives_zero(kind: str) -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    batch.tgt_weight.zero_()
    report = loss_of(teacher(kind), model, batch)
    assert (value(report), report.nll, report.weight) == (0, 0, 0)
    assert not any(bool(each.any()) for each in gradient(model, report))


@every_kind
def test_the_paper_s_weights_are_the_default(kind: str) -> None:
    assert {"rdrop": 5.0, "simcut": 3.0}[kind] == consistencies[kind]().model_dump()["weight"]


def test_a_run_with_subword_sampling_goes_on_bit_for_bit(data: Path, scratch: Path) -> None:
    """With everything else that draws random numbers; the tests of resuming do the same with simcut."""

    def recipe(run: str, updates: int) -> Any:
        settings = everything(data, scratch / run, updates)
        return as_recipe({**settings, "objective": {**settings["objective"], "consistency": "rdrop"}})

    assert Trainer(recipe("straight", 5)).train().finished
    assert Trainer(recipe("run", 3)).train().finished
    assert Trainer.resume(scratch / "run", ["training.stop_after=5u"]).train().finished
    updates = updates_of(scratch / "run")
    assert updates == updates_of(scratch / "straight")
    assert len(updates) == 5
    assert all(math.isfinite(float.fromhex(loss)) for _, loss, *_ in updates)


@every_kind
def test_two_workers_train_with_it(kind: str, data: Path, scratch: Path, forks: Forks) -> None:
    recipe = {**plain(data, scratch / "run", 3), "objective": {"consistency": kind}}
    recipe["training"] |= {"workers": 2}
    ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", recipe))
    assert ended.code == 0, ended.stderr
    updates = updates_of(scratch / "run")
    assert [update for update, *_ in updates] == [1, 2, 3]
    assert all(math.isfinite(float.fromhex(number)) for _, *numbers, _ in updates for number in numbers)
