"""What a model of the kind dag learns: all paths through its graph that say the target."""

import math
from typing import Any

import pytest
import torch

from qkv.functional.parallel.dag import dag_best, dag_log_prob, transitions
from qkv.models.parallel.base import open_canvas
from tests.support.parallel import objective_of, parallel_model
from tests.support.small import batch_of

DECODER = {"kind": "dag", "factor": 1.5}
LENGTHS = [(3, 4), (6, 5), (2, 2), (5, 0), (1, 9)]
"""The last target needs nine vertices, and has three."""


def definition(model: Any, batch: Any, row: int) -> tuple[Any, Any]:
    """Of the graph of one sentence: log p [L, V] and log E [L, L]."""
    length = model.canvas_lengths(batch.src_keep[row].sum()[None])
    src = batch.src[row : row + 1, : int(batch.src_keep[row].sum())]
    decoded = model.states(src, torch.ones_like(src, dtype=torch.bool), open_canvas(length))[0]
    query, key = model.transitions.query(decoded), model.transitions.key(decoded)
    return model.head.log_probs(decoded), transitions(query @ key.t() / decoded.shape[1] ** 0.5)


def test_the_loss_is_that_of_the_definition_and_what_does_not_fit_is_left_out() -> None:
    model, batch = parallel_model(DECODER, seed=2), batch_of(LENGTHS)
    report = objective_of(DECODER, smoothing="none").training_loss(model, batch, 1)
    expected = torch.zeros(())
    for row, (_, length) in enumerate(LENGTHS[:-1]):
        expected = expected - dag_log_prob(*definition(model, batch, row), batch.tgt_out[row, :length].tolist())
    torch.testing.assert_close(report.sum, expected)
    assert report.nll == pytest.approx(float(expected.detach()), rel=1e-5)
    assert (report.weight, report.left_out) == (4 + 5 + 2 + 1, 1)
    weights = [model.transitions.query.weight, model.transitions.key.weight, model.head.weight]
    found = (torch.autograd.grad(loss, weights) for loss in (report.sum, expected))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_smoothing_counts_as_much_as_elsewhere() -> None:
    """|Y| times log V where the model says uniform."""
    model, batch = parallel_model(DECODER), batch_of([(4, 3)])
    with torch.no_grad():
        model.head.weight.zero_()
    soft = objective_of(DECODER, smoothing={"kind": "uniform", "amount": 0.25}).training_loss(model, batch, 1)
    expected = 0.75 * float(soft.nll) + 0.25 * 3 * math.log(len(model.head.weight))
    assert float(soft.sum.detach()) == pytest.approx(expected, rel=1e-5)


def test_a_glance_shows_tokens_at_vertices_of_the_best_way() -> None:
    model, batch = parallel_model(DECODER, seed=2), batch_of(LENGTHS)
    seen, plain_fill = [], model.fill

    def fill(canvas: Any, source: Any) -> Any:
        seen.append(canvas)
        return plain_fill(canvas, source)

    model.fill = fill
    objective_of(DECODER, glancing={"start": 1.0, "end": 1.0}).training_loss(model, batch, 1)
    first, second = seen
    model.fill = plain_fill
    with torch.no_grad():
        for row, (_, length) in enumerate(LENGTHS[:3]):
            log_probs, links = definition(model, batch, row)
            target = batch.tgt_out[row, :length].tolist()
            path = dag_best(log_probs, links, target)
            wrong = sum(int(log_probs[vertex].argmax()) != token for vertex, token in zip(path, target, strict=True))
            shown = (second[row] != first[row]).nonzero().flatten().tolist()
            assert len(shown) == wrong > 0
            assert all(int(second[row, vertex]) == dict(zip(path, target, strict=True))[vertex] for vertex in shown)
    assert torch.equal(first[3:], second[3:])
