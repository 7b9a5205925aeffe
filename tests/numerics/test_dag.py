"""DA-Transformer against the definition: all paths through the graph are written down."""

import math
from itertools import combinations, pairwise, product

import pytest
import torch
from torch import Tensor

from qkv.functional.parallel.dag import dag_best, dag_log_prob, transitions
from qkv.kernels.dag import batched_transitions, dag_alignment, dag_nll, dag_visits

VOCAB = 3


def graph(vertices: int, vocab: int = VOCAB) -> tuple[Tensor, Tensor]:
    """log p [L, V] and log E [L, L]."""
    torch.manual_seed(vertices)
    log_probs = torch.randn(vertices, vocab, dtype=torch.float64).log_softmax(dim=-1)
    return log_probs, transitions(2 * torch.randn(vertices, vertices, dtype=torch.float64))


def enumerated(log_probs: Tensor, links: Tensor, target: tuple[int, ...]) -> list[tuple[float, list[int]]]:
    """(log p, vertices) of every path that says the target."""
    last = len(links) - 1
    found = []
    for path in combinations(range(1, last), len(target)):
        stops = [0, *path, last]
        score = math.fsum(float(links[u, v]) for u, v in pairwise(stops))
        found.append((score + math.fsum(float(log_probs[v, y]) for v, y in zip(path, target, strict=True)), list(path)))
    return found


def columns(log_probs: Tensor, target: tuple[int, ...]) -> Tensor:
    return log_probs[:, list(target)][None]


@pytest.mark.parametrize("vertices", [2, 3, 4, 5, 6])
def test_the_recursions_are_the_sum_and_the_best_of_all_ways(vertices: int) -> None:
    log_probs, links = graph(vertices)
    total = 0.0
    for count in range(vertices - 1):
        for target in product(range(VOCAB), repeat=count):
            paths = enumerated(log_probs, links, target)
            expected = float(torch.tensor([score for score, _ in paths], dtype=torch.float64).logsumexp(dim=0))
            total += math.exp(expected)
            best = max(paths)[1]
            assert float(dag_log_prob(log_probs, links, target)) == pytest.approx(expected, abs=1e-12)
            assert dag_best(log_probs, links, target) == best
            said, lengths, sizes = columns(log_probs, target), torch.tensor([count]), torch.tensor([vertices])
            assert float(dag_nll(said, links[None], lengths, sizes)) == pytest.approx(-expected, abs=1e-12)
            assert dag_alignment(said, links[None], lengths, sizes)[0].tolist() == best
    assert total == pytest.approx(1.0)


def test_rows_of_transitions_sum_to_one_except_the_last() -> None:
    _, links = graph(5)
    assert links.exp().sum(dim=1).tolist() == pytest.approx([1, 1, 1, 1, 0])
    assert not links.exp().tril().any()


def rows() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Logits [B, L, V], scores of links [B, L, L], targets with padding, their lengths, the graphs' lengths."""
    torch.manual_seed(3)
    logits = torch.randn(5, 7, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(5, 7, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 1, 2], [3, 0, 0], [2, 0, 0], [0, 0, 0], [1, 2, 3]])
    return logits, scores, targets, torch.tensor([3, 2, 1, 0, 3]), torch.tensor([7, 5, 3, 2, 4])


def test_a_batch_equals_the_definition_with_its_gradients() -> None:
    """Neither what stands behind a graph nor behind a target counts; the last row does not fit."""
    logits, scores, targets, lengths, sizes = rows()
    log_probs = logits.log_softmax(dim=-1)
    plain = []
    for b in range(5):
        own = slice(int(sizes[b]))
        links = transitions(scores[b, own, own])
        plain.append(-dag_log_prob(log_probs[b, own], links, targets[b, : lengths[b]].tolist()))
    said = log_probs.gather(2, targets[:, None, :].expand(-1, 7, -1))
    links = batched_transitions(scores, sizes)
    nll = dag_nll(said, links, lengths, sizes)
    torch.testing.assert_close(nll, torch.stack(plain))
    assert nll[4] == torch.inf
    weights = torch.arange(1.0, 5.0, dtype=torch.float64)
    slow = sum(weight * one for weight, one in zip(weights, plain, strict=False))
    fast = torch.where(nll.isfinite(), nll, 0.0)[:4] @ weights
    found = (torch.autograd.grad(loss, (logits, scores), retain_graph=True) for loss in (fast, slow))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    path = dag_alignment(said.detach(), links.detach(), lengths, sizes)
    for b in range(4):
        own = slice(int(sizes[b]))
        best = dag_best(log_probs[b, own].detach(), links[b, own, own].detach(), targets[b, : lengths[b]].tolist())
        assert path[b].tolist() == best + [0] * (3 - int(lengths[b]))
    assert path[4].tolist() == [0, 0, 0]


def test_visits_are_those_of_all_ways() -> None:
    log_probs, links = graph(6)
    target = (0, 2, 1)
    paths = enumerated(log_probs, links, target)
    shares = torch.tensor([score for score, _ in paths], dtype=torch.float64).softmax(dim=0)
    expected = torch.zeros(6, dtype=torch.float64)
    for share, (_, path) in zip(shares, paths, strict=True):
        expected[path] += share
    found = dag_visits(columns(log_probs, target), links[None], torch.tensor([3]), torch.tensor([6]))
    torch.testing.assert_close(found[0], expected)
    assert not dag_visits(columns(log_probs, target), links[None], torch.tensor([3]), torch.tensor([4])).any()


def test_the_best_way_is_no_more_probable_than_all() -> None:
    logits, scores, targets, lengths, sizes = rows()
    log_probs, links = logits.log_softmax(dim=-1), batched_transitions(scores, sizes)
    said = log_probs.gather(2, targets[:, None, :].expand(-1, 7, -1))
    nll, path = dag_nll(said, links, lengths, sizes), dag_alignment(said, links, lengths, sizes)
    for b in range(4):
        stops = [0, *path[b, : lengths[b]].tolist(), int(sizes[b]) - 1]
        score = sum(links[b, u, v].item() for u, v in pairwise(stops))
        score += sum(said[b, v, at].item() for at, v in enumerate(stops[1:-1]))
        assert score <= -nll[b] + 1e-12


def test_hardly_possible_ways_neither_vanish_nor_explode_in_single_precision() -> None:
    """Every transition and token e^-200: far below the smallest float, and still a gradient of one for each step."""
    said = torch.full((1, 4, 2), -200.0, requires_grad=True)
    links = torch.full((1, 4, 4), -200.0).triu(1).masked_fill(torch.ones(4, 4).tril().bool(), -torch.inf)
    links.requires_grad_()
    nll = dag_nll(said, links, torch.tensor([2]), torch.tensor([4]))
    assert nll.tolist() == [1000.0]
    nll.sum().backward()
    assert said.grad is not None
    assert links.grad is not None
    assert said.grad[0].tolist() == [[0, 0], [-1, 0], [0, -1], [0, 0]]
    assert float(links.grad.sum()) == -3.0
