"""What holds for every kind of model, in float64: padding, the rest of a batch, the labels and the future change
nothing, and cached steps say what one whole pass says.

The registry of models enumerates itself: a kind is tried unless it is named below with the reason why it lacks the
property. Transformers that do not decode token by token are in tests/kinds/test_decoders.py.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.models.kinds import models
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.text import SPECIAL
from tests.support.readings import (
    FORMS,
    READINGS,
    VOCAB,
    built,
    littered,
    log_probs,
    mislabelled,
    reading_of,
)

WITHOUT_PADDING = {
    "vision": "the images of a batch have one size",
    "forecasting": "the windows of a batch have one length",
}
WITHOUT_STEPS = {
    "masked_lm": "every token reads the whole text",
    "classifier": "one position has the label of the whole text",
    "tagger": "every token reads the whole text",
    "vision": "every patch reads the whole image",
    "forecasting": "the horizon is forecast at once from the whole window",
}
every_form = pytest.mark.parametrize("form", FORMS)
padded = pytest.mark.parametrize("form", [form for form in FORMS if form.split()[0] not in WITHOUT_PADDING])
stepwise = pytest.mark.parametrize("form", [form for form in FORMS if form.split()[0] not in WITHOUT_STEPS])


def same(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)


def test_every_registered_kind_is_tried() -> None:
    assert {form.split()[0] for form in FORMS} == set(models.names())
    assert {form.split()[0] for form in READINGS} == set(models.names())
    assert {*WITHOUT_PADDING, *WITHOUT_STEPS} <= set(models.names())


@every_form
def test_a_kind_that_is_left_out_lacks_the_property(form: str) -> None:
    model, tokenizers = built(form)
    kind, reading = form.split()[0], reading_of(form)
    assert (model.inference().steps is None) == (kind in WITHOUT_STEPS)
    assert (not isinstance(reading.collate(reading.examples, tokenizers), Batch)) == (kind in WITHOUT_PADDING)


@every_form
@torch.no_grad()
def test_an_example_alone_is_the_same_in_a_batch_with_longer_ones(form: str) -> None:
    (model, tokenizers), reading = built(form), reading_of(form)
    together = reading.said(model, reading.collate(reading.examples, tokenizers))
    alone = [reading.said(model, reading.collate([example], tokenizers)) for example in reading.examples]
    same(together, torch.cat(alone))
    assert len(together.unique(dim=0)) > 1


@padded
@torch.no_grad()
def test_what_stands_in_the_padding_changes_nothing(form: str) -> None:
    """Any ids behind the ends of source and target; more of it, too."""
    (model, tokenizers), reading = built(form), reading_of(form)
    batch = reading.collate(reading.examples, tokenizers)
    wanted = reading.said(model, batch)
    for columns in (0, 3):
        for seed in range(4):
            same(reading.said(model, littered(batch, columns, seed)), wanted)


@every_form
@torch.no_grad()
def test_what_is_to_be_learned_is_not_read(form: str) -> None:
    (model, tokenizers), reading = built(form), reading_of(form)
    batch = reading.collate(reading.examples, tokenizers)
    assert torch.equal(reading.said(model, mislabelled(batch)), reading.said(model, batch))


@stepwise
@torch.no_grad()
def test_no_position_depends_on_later_tokens(form: str) -> None:
    """Changing a token changes its own position, and nothing before."""
    (model, tokenizers), reading = built(form), reading_of(form)
    batch = reading.collate(reading.examples[:1], tokenizers)
    last = batch.tgt_in.shape[1] - 1
    changed = batch.tgt_in.clone()
    changed[0, last] = 5 + (int(changed[0, last]) - 4) % (VOCAB - 5)
    before, after = (log_probs(model, each)[0] for each in (batch, replace(batch, tgt_in=changed)))
    assert torch.equal(before[:last], after[:last])
    assert not torch.equal(before[last], after[last])


@stepwise
def test_no_gradient_flows_from_the_future_or_from_another_example(form: str) -> None:
    """∂ log p_t / ∂ embedded_s is exactly 0 for s > t and in other rows, and not 0 for s = t."""
    (model, tokenizers), reading = built(form), reading_of(form)
    batch, embedded = reading.collate(reading.examples, tokenizers), list[Tensor]()
    hook = model.tgt_embedding.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    said = log_probs(model, batch)[0]
    hook.remove()
    target = embedded[-1]  # one table may embed the source, too
    assert target.shape[:2] == batch.tgt_in.shape
    # The start symbol is not written to the memory of a Neural GPU.
    for position in range(1, len(said)):
        direction = torch.randn(VOCAB, generator=torch.Generator().manual_seed(position)).double()
        (gradient,) = torch.autograd.grad(said[position] @ direction, target, retain_graph=True)
        assert bool(gradient[0, position].any())
        assert not gradient[0, position + 1 :].any()
        assert not gradient[1:].any()


@stepwise
@torch.no_grad()
def test_cached_equals_full_for_reordered_beams(form: str) -> None:
    (model, tokenizers), reading = built(form), reading_of(form)
    batch = littered(reading.collate(reading.examples[:3], tokenizers), 2, seed=0)
    cached, full = ModelSteps(model), PrefixSteps(model)
    fast, slow = cached.start(batch.src, batch.src_keep, 2), full.start(batch.src, batch.src_keep, 2)
    tokens = torch.full((6,), SPECIAL.bos)
    orders = [
        ([1, 0, 3, 3, 5, 4], [0, 1, 2]),
        ([0, 1, 2, 3, 4, 5], [0, 1, 2]),
        ([4, 5, 0, 1], [2, 0]),
        ([3, 2], [1]),
        ([0, 0], [0]),
    ]
    for rows, sentences in orders:
        (said, fast), (wanted, slow) = cached.step(tokens, fast), full.step(tokens, slow)
        same(said.log_probs, wanted.log_probs)
        fast = fast.reorder(torch.tensor(rows), torch.tensor(sentences))
        slow = slow.reorder(torch.tensor(rows), torch.tensor(sentences))
        tokens = wanted.log_probs[:, 5:VOCAB].argmax(dim=1)[torch.tensor(rows)] + 5
