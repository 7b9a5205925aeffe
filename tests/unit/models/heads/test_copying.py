"""Copy heads inside models: cached steps, blocks and batches give what one parallel pass gives."""

from typing import Any

import pytest
import torch

from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text import SPECIAL
from tests.support.small import VOCAB, small_config, small_model, stir

CROSS = {"kind": "pointer_generator"}
OWN = {"kind": "pointer_generator", "attention": "own"}
SOME = {"kind": "pointer_generator", "layers": [1, 2], "heads": [2]}
COPYNET = {"kind": "copynet"}


def model_of(kind: str, head: dict[str, Any], **changes: Any) -> Model:
    if kind == "transformer":
        return small_model(head=head, **changes).double()
    torch.manual_seed(0)
    model = build_recurrent(RecurrentConfig(d_model=16, dropout=0.0, head=head), VOCAB, VOCAB, SPECIAL.pad, "all")
    stir(model)
    return model.double()


def batch_with_unknowns() -> Batch:
    """V + s is the unknown token at source position s."""
    src = [[7, VOCAB + 1, 9, VOCAB + 1, 8], [VOCAB, 6], [10, 11, VOCAB + 2]]
    tgt = [[VOCAB + 1, 7, VOCAB + 1], [12, VOCAB, 6, 7], [VOCAB + 2]]
    return collate(src, tgt, SPECIAL, SPECIAL, range(3))


EACH = [
    ("transformer", CROSS, {}),
    ("transformer", SOME, {}),
    ("transformer", SOME, {"share_layers": True}),
    ("transformer", CROSS, {"wiring": "concatenated"}),
    ("transformer", OWN, {}),
    ("transformer", COPYNET, {}),
    ("recurrent", CROSS, {}),
    ("recurrent", OWN, {}),
    ("recurrent", COPYNET, {}),
]


@pytest.mark.parametrize(("kind", "head", "changes"), EACH)
def test_cached_steps_and_blocks_are_one_pass(kind: str, head: dict[str, Any], changes: dict[str, Any]) -> None:
    model, batch = model_of(kind, head, **changes).eval(), batch_with_unknowns()
    with torch.no_grad():
        states, context = model(batch)
        wanted = model.head.log_probs(states, context, never=(0, 2, 4))
    steps, plain = ModelSteps(model), PrefixSteps(model)
    state, prefix = steps.start(batch.src, batch.src_keep, 2), plain.start(batch.src, batch.src_keep, 2)
    for place, tokens in enumerate(batch.tgt_in.unbind(1)):
        said, state = steps.step(tokens.repeat_interleave(2), state)
        again, prefix = plain.step(tokens.repeat_interleave(2), prefix)
        torch.testing.assert_close(said.log_probs[::2], wanted[:, place], atol=1e-10, rtol=0)
        torch.testing.assert_close(said.log_probs, again.log_probs, atol=1e-10, rtol=0)
    rows, sentences = torch.tensor([5, 4, 1, 0]), torch.tensor([2, 0])
    tokens = torch.tensor([7, 8, VOCAB, 9])
    said, _ = steps.step(tokens, state.reorder(rows, sentences))
    again, _ = plain.step(tokens, prefix.reorder(rows, sentences))
    torch.testing.assert_close(said.log_probs, again.log_probs, atol=1e-10, rtol=0)
    if kind == "transformer":
        blocks = ModelBlocks(model)
        output, _ = blocks.extend(batch.tgt_in, blocks.start(batch.src, batch.src_keep)[1])
        torch.testing.assert_close(output.log_probs, wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("kind", "head", "changes"), EACH)
def test_a_sentence_alone_is_the_same_as_in_a_batch(kind: str, head: dict[str, Any], changes: dict[str, Any]) -> None:
    model, batch = model_of(kind, head, **changes).eval(), batch_with_unknowns()
    alone = collate([[VOCAB, 6]], [[12, VOCAB, 6, 7]], SPECIAL, SPECIAL, [0])
    with torch.no_grad():
        together, own = (model.head.log_probs(*model(each)) for each in (batch, alone))
    width = own.shape[-1]
    torch.testing.assert_close(together[1, :, :width], own[0], atol=1e-10, rtol=0)
    assert bool((together[1, :, width:] == -torch.inf).all())
    assert bool((own[0, :, SPECIAL.pad] < 0).all())


@pytest.mark.parametrize(("kind", "head", "changes"), EACH)
@pytest.mark.parametrize("consistency", [None, "rdrop"])
def test_it_learns(kind: str, head: dict[str, Any], changes: dict[str, Any], consistency: str | None) -> None:
    model, batch = model_of(kind, head, **changes), batch_with_unknowns()
    config = ObjectiveConfig.model_validate({"smoothing": {"kind": "uniform"}, "consistency": consistency})
    objective = config.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    for update in range(1, 7):
        optimizer.zero_grad()
        report = objective.training_loss(model, batch, update)
        report.sum.backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.head.parameters())
        optimizer.step()
        losses.append(float(report.sum.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_chosen_layers_and_heads_are_those_of_the_record() -> None:
    from qkv.layers.attention.recording import capture_attention

    model, batch = model_of("transformer", SOME).eval(), batch_with_unknowns()
    with torch.no_grad(), capture_attention(model) as record:
        output = model(batch)
    layers = [record[f"decoder.layers.{layer}.cross_attention"][:, 1] for layer in range(2)]
    torch.testing.assert_close(output.context.attention, (layers[0] + layers[1]) / 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": CROSS, "decoder": "ctc"}, "autoregressive decoder, not for ctc"),
        ({"head": COPYNET, "decoder": "nat"}, "autoregressive decoder, not for nat"),
        ({"head": CROSS, "draft": "blockwise"}, "draft reads the head linear"),
        ({"head": COPYNET, "wiring": "concatenated"}, "use wiring last"),
        ({"head": {**CROSS, "layers": [3]}}, "from 1 to 2"),
        ({"head": {**CROSS, "heads": [2, 2]}}, "names one twice"),
        ({"head": {**OWN, "heads": [1]}}, "leave them out with attention own"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config(**changes)


def test_one_vocabulary_is_needed() -> None:
    config = small_config(head=COPYNET)
    assert "give text.shared" in str(config.data_problem(10, 10, shared_tokenizer=False))
    assert config.data_problem(10, 10, shared_tokenizer=True) is None
    with pytest.raises(ValueError, match="one layer of attention"):
        RecurrentConfig(head={**CROSS, "layers": [2]})
