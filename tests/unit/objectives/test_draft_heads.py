"""Draft heads learn what they should, a frozen model stays as it was to the last bit, and drafts get better by it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.config.load import validate
from qkv.core.errors import UsageError
from qkv.functional.parallel.ctc import ctc_log_prob
from qkv.models.draft_heads import draft_heads
from qkv.models.draft_heads.blockwise import BlockwiseHeads
from qkv.models.draft_heads.source import SourceHead
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import load_model
from qkv.models.saved.weights import named_weights
from qkv.models.transformer.model import Transformer
from qkv.objectives.draft_heads import DraftHeadLoss
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.greedy import GreedyConfig
from qkv.text import SPECIAL
from qkv.training.recipe import Recipe
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from qkv.translate.translator import Translator
from tests.support.small import VOCAB, batch_of, small_model
from tests.support.tiny import as_recipe, changed, plain

LENGTHS = [(3, 5), (6, 2), (1, 0), (4, 3), (2, 3)]
every_kind = pytest.mark.parametrize("kind", draft_heads.names())


def loss(frozen: bool) -> DraftHeadLoss:
    base = ObjectiveConfig(smoothing="none").build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    return DraftHeadLoss(base, frozen, SPECIAL)


def model_with(draft: str | dict[str, Any], **changes: Any) -> Transformer:
    return small_model(draft=draft, **changes)


def log_softmax(vector: Tensor, weight: Tensor) -> Tensor:
    return torch.log_softmax(weight @ vector, dim=0)


def test_blockwise_heads_guess_the_tokens_after_the_next_one() -> None:
    """The mean over the heads, position by position."""
    model, batch = model_with({"kind": "blockwise", "heads": 3}).double().eval(), batch_of(LENGTHS)
    head = model.draft_head
    assert isinstance(head, BlockwiseHeads)
    decoded = model.states(batch.src, batch.src_keep, batch.tgt_in)
    total = 0.0
    for row, weights in enumerate(batch.tgt_weight):
        length = int(weights.sum())
        for at in range(length):
            vectors = head(decoded[row, at][None])[:, 0]
            for ahead in (1, 2, 3):
                if at + ahead < length:
                    token = int(batch.tgt_out[row, at + ahead])
                    total -= float(log_softmax(vectors[ahead - 1], output_matrix(model.head))[token].detach()) / 3
    report = loss(frozen=True).training_loss(model, batch, 1)
    assert float(report.sum.detach()) == pytest.approx(total, rel=1e-9)
    assert report.weight == float(batch.tgt_weight.sum())


def test_a_blockwise_head_is_a_feed_forward_network_with_a_residual() -> None:
    torch.manual_seed(0)
    head, x = BlockwiseHeads(2, 4, 6), torch.randn(5, 4)
    torch.testing.assert_close(head(x), x.expand(2, 5, 4))
    with torch.no_grad():
        head.outer.normal_()
        head.outer_bias.normal_()
    for number in (0, 1):
        inner = slice(6 * number, 6 * number + 6)
        hidden = torch.relu(x @ head.inner.weight[inner].t() + head.inner.bias[inner])
        torch.testing.assert_close(head(x)[number], x + hidden @ head.outer[number] + head.outer_bias[number])


def test_the_source_head_learns_the_paths_that_collapse_to_the_target() -> None:
    """-log P(Y | X) by the definition; a target without a path is left out and counted."""
    model = model_with({"kind": "source", "upsample": 2}).double().eval()
    batch = batch_of([*LENGTHS, (1, 9)])
    head = model.draft_head
    assert isinstance(head, SourceHead)
    vectors = head(model.encode(batch.src, batch.src_keep), batch.src_keep)
    weight = torch.cat([output_matrix(model.head), head.blank])
    total, tokens = 0.0, 0
    for row, (src_length, tgt_length) in enumerate(LENGTHS):
        log_probs = torch.log_softmax(vectors[row, : 2 * (src_length + 1)] @ weight.t(), dim=1)
        total -= float(ctc_log_prob(log_probs, batch.tgt_out[row, :tgt_length].tolist(), VOCAB).detach())
        tokens += max(tgt_length, 1)
    report = loss(frozen=True).validation_loss(model, batch)
    assert report.nll == pytest.approx(total, rel=1e-6)
    assert (report.weight, report.left_out) == (tokens, 1)


def test_with_drawn_negatives_the_loss_is_over_fewer_tokens() -> None:
    batch = batch_of(LENGTHS)
    whole, some = (
        loss(frozen=True).training_loss(model_with({"kind": "source", "negatives": count}).train(), batch, 1)
        for count in (None, 2)
    )
    assert 0 < float(some.sum.detach()) < float(whole.sum.detach())
    # With every token among the drawn ones nothing is missing.
    all_of_them = loss(frozen=True).training_loss(model_with({"kind": "source", "negatives": 2000}).train(), batch, 1)
    assert float(all_of_them.sum.detach()) == pytest.approx(float(whole.sum.detach()), rel=1e-4)


@every_kind
def test_only_an_unfrozen_model_learns_with_its_head(kind: str) -> None:
    batch = batch_of(LENGTHS)
    for frozen in (True, False):
        model = model_with(kind, dropout=0.2).train()
        report = loss(frozen).training_loss(model, batch, 1)
        report.sum.backward()
        assert model.training
        moved = {name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
        assert any(name.startswith("draft_head.") for name in moved)
        assert any(not name.startswith("draft_head.") for name in moved) == (not frozen)
        again = loss(frozen).validation_loss(model.eval(), batch)
        assert again.nll == loss(frozen).validation_loss(model, batch).nll


@every_kind
def test_an_unfrozen_model_s_loss_has_its_own_share(kind: str) -> None:
    batch, model = batch_of(LENGTHS), model_with(kind).eval()
    both, base = loss(frozen=False), loss(frozen=False).base
    own = loss(frozen=True).validation_loss(model, batch)
    wanted = float(base.training_loss(model, batch, 1).sum.detach()) + float(own.nll)
    assert float(both.training_loss(model, batch, 1).sum.detach()) == pytest.approx(wanted, rel=1e-5)
    assert both.validation_loss(model, batch).nll == base.validation_loss(model, batch).nll


@pytest.fixture(scope="module")
def base(data: Path, in_memory: Path) -> Path:
    """A run that has learned a little."""
    Trainer(as_recipe(plain(data, in_memory / "base", 30))).train()
    return in_memory / "base"


@every_kind
def test_a_run_trains_the_head_of_a_frozen_model(kind: str, data: Path, base: Path, scratch: Path) -> None:
    """Bit for bit the same model, a better head, and the same output as without it."""
    recipe = changed(plain(data, scratch / "run", 24), model={"draft": kind}, validation={"every": "8u"})
    recipe |= {"start_from": str(base), "schedule": {"kind": "constant", "peak": 1e-2}}
    result = Trainer(as_recipe(recipe)).train()
    assert result.finished
    before, after = load_model(base / "best"), load_model(scratch / "run" / "best")
    old, new = named_weights(before.model), named_weights(after.model)
    assert new.keys() - old.keys() == {name for name in new if name.startswith("draft_head.")} != set()
    assert all(torch.equal(weight, new[name]) for name, weight in old.items())
    losses = [line["loss"] for line in _validations(scratch / "run")]
    assert losses[-1] < losses[0]
    texts = ["abc", "hgfedcba", "d", "ccaab"]
    search = GreedyConfig(max_factor=1.0)
    wanted = [one.text for one in Translator(base, "torch", search).translate(texts)]
    found = Translator(scratch / "run", "torch", search).translate(texts)
    assert [one.text for one in found] == wanted
    assert all(one.passes for one in found)


def _validations(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if "validation" in line]


def test_what_cannot_be_trained_is_refused_when_the_recipe_is_read(data: Path, base: Path, scratch: Path) -> None:
    recipe = changed(plain(data, scratch / "run"), model={"draft": "blockwise"})
    with pytest.raises(UsageError, match=r"give start_from, or draft\.frozen: false"):
        as_recipe(recipe)
    with pytest.raises(UsageError, match="would change the frozen model"):
        as_recipe(recipe | {"start_from": str(base), "optimizer": {"weight_decay": 0.1}})
    with pytest.raises(UsageError, match="not one of kind ctc"):
        as_recipe(changed(recipe, model={"decoder": "ctc"}) | {"start_from": str(base)})
    with pytest.raises(UsageError, match="draft source reads the last encoder layer"):
        as_recipe(changed(recipe, model={"draft": "source", "wiring": "mix"}) | {"start_from": str(base)})
    together = changed(recipe, model={"draft": {"kind": "blockwise", "frozen": False}})
    assert isinstance(validate(Recipe, together, "test"), Recipe)


def test_a_run_starts_from_a_model_of_the_same_kind_and_vocabulary(data: Path, base: Path, scratch: Path) -> None:
    recipe = plain(data, scratch / "run", 2) | {"start_from": str(base)}
    with pytest.raises(UsageError, match="is another kind of model"):
        Trainer(as_recipe(changed(recipe, model={"decoder_layers": 2}))).train()
    for name, value in {"num_heads": 1, "residual": "deepnorm", "feed_forward": "gelu", "positions": "alibi"}.items():
        with pytest.raises(UsageError, match=rf"has model\.{name} \w+, not {value}; give model\.{name}=\w+ to use"):
            Trainer(as_recipe(changed(recipe, model={name: value}) | {"run": str(scratch / name)})).train()
    other = scratch / "other"
    Trainer(as_recipe(changed(plain(data, other, 1), text={"shared": {"kind": "char", "max_size": 6}}))).train()
    with pytest.raises(UsageError, match="has another vocabulary"):
        Trainer(as_recipe(recipe | {"run": str(scratch / "b"), "tokenizers": str(other / "tokenizer")})).train()
    Trainer(as_recipe(recipe | {"run": str(scratch / "c"), "schedule": {"kind": "constant", "peak": 1e-9}})).train()
    old, new = (load_model(run / "best").model.head.weight for run in (base, scratch / "c"))
    torch.testing.assert_close(old, new, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["nat", "canvas", "ctc", "mask_predict"])
def test_a_model_that_writes_all_at_once_starts_from_its_teacher(
    data: Path, base: Path, scratch: Path, kind: str
) -> None:
    recipe = plain(data, scratch / "run", 1) | {"start_from": str(base), "schedule": {"kind": "constant", "peak": 1e-9}}
    Trainer(as_recipe(changed(recipe, model={"decoder": kind}))).train()
    teacher, student = (named_weights(load_model(run / "best").model) for run in (base, scratch / "run"))
    for name, weight in teacher.items():
        torch.testing.assert_close(student[name][: len(weight)], weight, atol=1e-6, rtol=0)
    assert all(bool(torch.isfinite(weight).all()) for weight in student.values())
