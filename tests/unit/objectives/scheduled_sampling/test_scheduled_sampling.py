"""Scheduled sampling: what the second pass reads, what it learns, and when there is none."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.core.errors import ConfigError
from qkv.data.batch import Batch
from qkv.layers.embedding import TokenEmbedding
from qkv.models.base import Model, Output
from qkv.models.config import Seq2SeqConfig
from qkv.models.heads import heads
from qkv.models.heads.linear import LinearHead, output_matrix
from qkv.models.kinds import models
from qkv.models.transformer.model import Transformer
from qkv.objectives.base import LossReport
from qkv.objectives.scheduled_sampling.gold_rates import GoldRate, gold_rates
from qkv.objectives.scheduled_sampling.mixing import most_probable, samplings
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL, TokenizerPair, WhitespaceConfig
from tests.support.small import VOCAB, batch_of, small_config, small_model, small_text
from tests.support.tiny import as_recipe, plain

LENGTHS = [(3, 5), (6, 2), (1, 0), (4, 7), (2, 3)]
ALWAYS_GOLD = {"kind": "linear", "floor": 1.0}
NEVER_GOLD = {"kind": "linear", "updates": 1}
HALF = {"kind": "linear", "updates": 1, "floor": 0.5}
KINDS = samplings.names()


def objective(sampling: dict[str, Any] | None, **others: Any) -> TeacherForcing:
    return ObjectiveConfig(scheduled_sampling=sampling, **others).build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))


def learned(model: Model, trained: TeacherForcing, batch: Batch, update: int = 1) -> tuple[LossReport, list[Tensor]]:
    torch.manual_seed(5)
    model.zero_grad()
    report = trained.training_loss(model, batch, update)
    report.sum.backward()
    return report, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@contextmanager
def second_pass(sampling: dict[str, Any], model: Model, batch: Batch, update: int = 1) -> Iterator[Tensor]:
    built = samplings[sampling["kind"]](**sampling).build(SPECIAL)
    with built.mixing(model, batch, update) as tgt_in:
        yield tgt_in


def allowed(model: Transformer, batch: Batch) -> Tensor:
    """Log-probabilities [B, T, V] of the tokens that a search would go on with."""
    with torch.no_grad():
        states, context = model(batch)
        never = (SPECIAL.pad, SPECIAL.bos, SPECIAL.eos, SPECIAL.mask)
        return model.head.log_probs(states, context, never=never)


@pytest.mark.parametrize("kind", KINDS)
def test_all_gold_is_teacher_forcing_bit_for_bit(kind: str) -> None:
    model, batch = small_model(dropout=0.3), batch_of(LENGTHS)
    wanted, gradient = learned(model, objective(None), batch)
    report, found = learned(model, objective({"kind": kind, "gold": ALWAYS_GOLD}), batch)
    assert torch.equal(report.sum, wanted.sum)
    assert all(torch.equal(one, other) for one, other in zip(found, gradient, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_schedule_begins_it_is_teacher_forcing(kind: str) -> None:
    model, batch = small_model(dropout=0.3), batch_of(LENGTHS)
    trained = objective({"kind": kind, "gold": NEVER_GOLD | {"after": 7}})
    assert torch.equal(learned(model, trained, batch, 7)[0].sum, learned(model, objective(None), batch)[0].sum)
    assert not torch.equal(learned(model, trained, batch, 8)[0].sum, learned(model, objective(None), batch)[0].sum)


def test_no_gold_feeds_the_most_probable_tokens_shifted_by_one() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    predicted = allowed(model, batch)
    with second_pass({"kind": "argmax", "gold": NEVER_GOLD}, model, batch) as tgt_in:
        for row, (_, length) in enumerate(LENGTHS):
            assert int(tgt_in[row, 0]) == SPECIAL.bos
            for t in range(1, length + 1):
                assert int(tgt_in[row, t]) == int(predicted[row, t - 1].argmax())
            assert (tgt_in[row, length + 1 :] == SPECIAL.pad).all()


class Successor(Model):
    """Says the token after the one that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = TokenEmbedding(VOCAB, 4, SPECIAL.pad)
        self.head = LinearHead(nn.Parameter(50 * torch.eye(VOCAB)))

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.tokens

    def forward(self, batch: Batch) -> Output:
        return Output(nn.functional.one_hot((batch.tgt_in + 1) % VOCAB, VOCAB).float())


def test_a_prediction_stands_one_place_after_what_it_was_made_from() -> None:
    batch = batch_of([(2, 4)])
    batch.tgt_in[0, 1:] = torch.tensor([10, 6, 15, 8])
    with second_pass({"kind": "argmax", "gold": NEVER_GOLD}, Successor(), batch) as tgt_in:
        assert tgt_in[0, 2:].tolist() == [11, 7, 16]


@pytest.mark.parametrize("kind", ["argmax", "sample"])
def test_the_second_pass_learns_gold_labels_and_nothing_flows_through_the_first(kind: str) -> None:
    """As if the mixed input had been given in place of the gold one."""
    model, batch, sampling = small_model(), batch_of(LENGTHS), {"kind": kind, "gold": HALF}
    report, found = learned(model, objective(sampling), batch)
    torch.manual_seed(5)
    with second_pass(sampling, model, batch) as tgt_in:
        given = replace(batch, tgt_in=tgt_in)
    assert not torch.equal(given.tgt_in, batch.tgt_in)
    wanted, gradient = learned(model, objective(None), given)
    assert torch.equal(report.sum, wanted.sum)
    assert all(torch.equal(one, other) for one, other in zip(found, gradient, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_tokens_but_no_start_symbol_and_no_padding(kind: str) -> None:
    model, batch = small_model(), batch_of([(3, 30), (3, 5)] * 40)
    torch.manual_seed(1)
    with second_pass({"kind": kind, "gold": HALF}, model, batch) as tgt_in:
        changed = tgt_in != batch.tgt_in
    special = (batch.tgt_in == SPECIAL.pad) | (batch.tgt_in == SPECIAL.bos)
    assert not changed[special].any()
    # A prediction may be right, with a model that knows nothing one time in V.
    count, most = int((~special).sum()), 0.5
    least = 0.5 if kind == "expected" else 0.5 * (1 - 3 / VOCAB)
    sigma = 0.5 / math.sqrt(count)
    assert least - 3 * sigma < float(changed[~special].float().mean()) < most + 3 * sigma


def test_no_special_token_is_predicted() -> None:
    model, batch = small_model(share_embeddings="none"), batch_of(LENGTHS * 20)
    with torch.no_grad():
        output_matrix(model.head)[[SPECIAL.pad, SPECIAL.bos, SPECIAL.eos, SPECIAL.mask]] *= 100
    with second_pass({"kind": "sample", "gold": NEVER_GOLD, "temperature": 5.0}, model, batch) as tgt_in:
        tokens = tgt_in[(batch.tgt_in != SPECIAL.pad) & (batch.tgt_in != SPECIAL.bos)]
    assert not torch.isin(tokens, torch.tensor([SPECIAL.pad, SPECIAL.bos, SPECIAL.eos, SPECIAL.mask])).any()


def test_tokens_are_drawn_by_their_probabilities() -> None:
    model, batch = small_model(), batch_of([(3, 2)])
    many = replace(batch, **{name: getattr(batch, name).expand(4000, -1) for name in ("src", "src_keep", "tgt_in")})
    sampling = {"kind": "sample", "gold": NEVER_GOLD, "temperature": 2.0, "top_k": 4}
    torch.manual_seed(2)
    with second_pass(sampling, model, many) as tgt_in:
        found = torch.bincount(tgt_in[:, 1], minlength=VOCAB) / len(tgt_in)
    wanted = (most_probable(allowed(model, batch)[0, :1], 4) / 2.0).softmax(dim=-1)[0]
    assert int((wanted > 0).sum()) == 4
    assert ((found - wanted).abs() < 4 * (wanted * (1 - wanted) / 4000).sqrt() + 1e-6).all()


@pytest.mark.parametrize("tied", ["all", "none"])
def test_the_expected_embedding_against_loops(tied: str) -> None:
    """States and gradients of a pass over Σ_v p_v E[v], built by hand in double precision."""
    model, batch = small_model(share_embeddings=tied).double(), batch_of(LENGTHS)
    probabilities = allowed(model, batch).exp()
    table = model.tgt_embedding.weight

    def by_hand() -> Tensor:
        rows = []
        for row in range(len(LENGTHS)):
            read = [table[SPECIAL.bos]]
            for t in range(1, batch.tgt_in.shape[1]):
                if t > LENGTHS[row][1]:
                    read.append(torch.zeros_like(table[0]))
                    continue
                terms = [float(probabilities[row, t - 1, v]) * table[v] for v in range(VOCAB)]
                read.append(torch.stack(terms).sum(dim=0))
            rows.append(torch.stack(read))
        return torch.stack(rows) * model.tgt_embedding.scale

    real = batch.tgt_weight > 0
    hook = model.tgt_embedding.register_forward_hook(
        lambda module, ids, output: by_hand() if ids[0] is batch.tgt_in else output
    )
    wanted = model(batch).states[real]
    hook.remove()
    (slow,) = torch.autograd.grad(wanted.sin().sum(), [table])
    with second_pass({"kind": "expected", "gold": NEVER_GOLD}, model, batch) as tgt_in:
        found = model(replace(batch, tgt_in=tgt_in)).states[real]
    assert torch.allclose(found, wanted, rtol=1e-10, atol=1e-12)
    (fast,) = torch.autograd.grad(found.sin().sum(), [table])
    ordinary = torch.arange(VOCAB) != SPECIAL.pad
    assert torch.allclose(fast[ordinary], slow[ordinary], rtol=1e-8, atol=1e-10)


def test_the_expected_embedding_of_one_token_is_its_own() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    one = learned(model, objective({"kind": "expected", "gold": NEVER_GOLD, "top_k": 1}), batch)
    other = learned(model, objective({"kind": "argmax", "gold": NEVER_GOLD}), batch)
    assert torch.allclose(one[0].sum, other[0].sum, rtol=1e-6)
    for found, wanted in zip(one[1], other[1], strict=True):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_other_parts_of_the_objective_go_with_it(kind: str) -> None:
    model, batch = small_model(dropout=0.1), batch_of(LENGTHS)
    parts = {"noise": [{"kind": "drop", "rate": 0.3}], "consistency": "simcut", "attention": {"kind": "guided"}}
    report, gradient = learned(model, objective({"kind": kind, "gold": HALF}, **parts), batch)
    assert torch.isfinite(report.sum)
    assert all(torch.isfinite(one).all() for one in gradient)
    assert report.weight == float(batch.tgt_weight.sum())


@pytest.mark.parametrize("name", [name for name in models.names() if issubclass(models[name], Seq2SeqConfig)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_kind(kind: str, name: str) -> None:
    separated = WhitespaceConfig().train(["a b c d e f . ."])  # a memory network needs a token that ends a sentence
    tokenizers = TokenizerPair(separated, separated)
    model = models.example(name).build(tokenizers)
    size = len(tokenizers.tgt)
    config = ObjectiveConfig(scheduled_sampling={"kind": kind, "gold": NEVER_GOLD})
    report, _ = learned(model, config.build(size, SPECIAL, lambda: torch.ones(size)), batch_of(LENGTHS, vocab=size))
    assert torch.isfinite(report.sum)


@pytest.mark.parametrize("head", heads.names())
def test_every_head(head: str) -> None:
    """Also those that know words beyond the vocabulary."""
    _, tokenizers = small_text()
    model = small_config(head=heads.example(head)).build(tokenizers)
    size = len(tokenizers.tgt)
    config = ObjectiveConfig(scheduled_sampling={"kind": "argmax", "gold": NEVER_GOLD})
    report, _ = learned(model, config.build(size, SPECIAL, lambda: torch.ones(size)), batch_of(LENGTHS, vocab=size))
    assert torch.isfinite(report.sum)


def test_validation_is_not_changed() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    wanted = objective(None).validation_loss(model, batch).nll
    assert objective({"kind": "argmax", "gold": NEVER_GOLD}).validation_loss(model, batch).nll == wanted


def rate(**config: Any) -> GoldRate:
    return gold_rates[config["kind"]](**config).build()


def test_the_schedules() -> None:
    linear = rate(kind="linear", updates=1000, floor=0.25, after=10)
    assert [linear(n) for n in (1, 10, 110, 510, 760, 9999)] == pytest.approx([1, 1, 0.9, 0.5, 0.25, 0.25])
    exponential = rate(kind="exponential", k=0.5, floor=0.01)
    assert [exponential(n) for n in (1, 2, 3, 100)] == [0.5, 0.25, 0.125, 0.01]
    sigmoid = rate(kind="inverse_sigmoid", k=100.0)
    for n in (1, 50, 500, 2000):
        assert sigmoid(n) == pytest.approx(100 / (100 + math.exp(n / 100)), rel=1e-12)
    assert sigmoid(round(100 * math.log(100))) == pytest.approx(0.5, abs=1e-2)
    assert 0 <= sigmoid(10**9) < 1e-200


@pytest.mark.parametrize("kind", gold_rates.names())
def test_rates_fall_and_are_probabilities(kind: str) -> None:
    schedule = gold_rates[kind]().build()
    rates = [schedule(n) for n in (1, 2, 10, 100, 1000, 10_000, 10**6, 10**8)]
    assert all(0 <= one <= 1 for one in rates)
    assert rates == sorted(rates, reverse=True)


def test_refused_where_there_is_no_left_to_right_input(tmp_path: Any) -> None:
    recipe = plain(tmp_path, tmp_path / "run")
    recipe["model"]["decoder"] = "ctc"
    recipe["objective"] = {"scheduled_sampling": "argmax"}
    with pytest.raises(ConfigError, match=r"objective\.scheduled_sampling is for the autoregressive decoder"):
        as_recipe(recipe)
